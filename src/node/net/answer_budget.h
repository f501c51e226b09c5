// How many bytes of answers are made and not yet in the network's hands: blocks and ranges are large, a peer that asks
// faster than the network takes holds its share and no more, and all that do so together leave room for the committee.
// Thread-safe.
//
// A place is taken with the largest size that the answer may have, cut to the answer's when that is known, and given
// back when p2p has taken the answer: what waits to be read counts there (p2p/answer_account.h), where those who do not
// read are left when others need the room. They must not hold places here: six of them would hold all, and strangers
// that follow the chain would be refused for as long as the six like.
#pragma once

#include <map>
#include <memory>
#include <set>

#include "base/bytes.h"
#include "base/mutex.h"

namespace quern::node {

inline constexpr std::size_t kMaxAnswerBytes = 96U << 20;           // of all peers
inline constexpr std::size_t kMaxStrangersAnswerBytes = 64U << 20;  // of those that are not in the committee
inline constexpr std::size_t kMaxPeerAnswerBytes = 2U << 20;        // who holds so much gets no more until it reads

class AnswerBudget {
public:
    class Place {
    public:
        Place(std::shared_ptr<AnswerBudget> budget, const Bytes20& peer, std::size_t bytes, bool stranger)
            : budget_(std::move(budget)), peer_(peer), bytes_(bytes), stranger_(stranger) {}
        ~Place() { budget_->release(peer_, bytes_, stranger_); }
        Place(const Place&) = delete;
        Place& operator=(const Place&) = delete;
        // The answer is this large.
        void shrink(std::size_t bytes) {
            if (bytes >= bytes_) return;
            budget_->release(peer_, bytes_ - bytes, stranger_);
            bytes_ = bytes;
        }

    private:
        const std::shared_ptr<AnswerBudget> budget_;
        const Bytes20 peer_;
        std::size_t bytes_;
        const bool stranger_;
    };

    void set_committee(std::set<Bytes20> members);
    // Null when there is no room: refuse as busy. `budget` lives as long as its places.
    [[nodiscard]] static std::shared_ptr<Place> reserve(const std::shared_ptr<AnswerBudget>& budget,
                                                        const Bytes20& peer, std::size_t bytes);
    [[nodiscard]] std::size_t used() const;

private:
    void release(const Bytes20& peer, std::size_t bytes, bool stranger);

    mutable Mutex mutex_;
    std::set<Bytes20> committee_ QUERN_GUARDED_BY(mutex_);
    std::map<Bytes20, std::size_t> by_peer_ QUERN_GUARDED_BY(mutex_);
    std::size_t used_ QUERN_GUARDED_BY(mutex_) = 0;
    std::size_t strangers_ QUERN_GUARDED_BY(mutex_) = 0;
};

}  // namespace quern::node
