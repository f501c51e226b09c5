#include "node/net/answer_budget.h"

#include "base/ensure.h"

namespace quern::node {

void AnswerBudget::set_committee(std::set<Bytes20> members) {
    const MutexLock lock(mutex_);
    committee_ = std::move(members);
}

std::shared_ptr<AnswerBudget::Place> AnswerBudget::reserve(const std::shared_ptr<AnswerBudget>& budget,
                                                           const Bytes20& peer, std::size_t bytes) {
    const MutexLock lock(budget->mutex_);
    const bool stranger = !budget->committee_.contains(peer);
    const auto known = budget->by_peer_.find(peer);
    const std::size_t held = known == budget->by_peer_.end() ? 0 : known->second;
    if (held >= kMaxPeerAnswerBytes || budget->used_ + bytes > kMaxAnswerBytes ||
        (stranger && budget->strangers_ + bytes > kMaxStrangersAnswerBytes))
        return nullptr;
    budget->by_peer_[peer] += bytes;
    budget->used_ += bytes;
    if (stranger) budget->strangers_ += bytes;
    return std::make_shared<Place>(budget, peer, bytes, stranger);
}

void AnswerBudget::release(const Bytes20& peer, std::size_t bytes, bool stranger) {
    const MutexLock lock(mutex_);
    deduct(used_, bytes);
    if (stranger) deduct(strangers_, bytes);
    const auto known = by_peer_.find(peer);
    ensure(known != by_peer_.end(), "who gives back has taken");
    deduct(known->second, bytes);
    if (known->second == 0) by_peer_.erase(known);
}

std::size_t AnswerBudget::used() const {
    const MutexLock lock(mutex_);
    return used_;
}

}  // namespace quern::node
