#include "compute/worker/live_tasks.h"

#include "base/log.h"
#include "chain/types/json_codec.h"

namespace quern::compute::worker {
namespace {

using chain::types::ClaimState;
using chain::types::TaskClaim;
using chain::types::TaskState;

// The record after these fields were changed; all of it where none was known.
template <chain::types::Record T>
Expected<T> with_fields(const T* known, const json::Value& fields) {
    if (known == nullptr) return chain::types::record_from_json<T>(fields);
    if (fields.is_null()) return *known;
    json::Value whole = chain::types::to_json(*known);
    json::Object members;
    members.reserve(whole.size());
    for (const json::Member& member : whole.members()) {
        const json::Value* changed = fields.find(member.key);
        members.push_back({member.key, changed != nullptr ? *changed : member.value});
    }
    return chain::types::record_from_json<T>(json::Value(std::move(members)));
}

}  // namespace

Status check_claim(const TaskClaim& live) {
    const auto present = chain::types::present_claim(live.task);
    const bool is_told = live.claim.state != ClaimState::none;
    const bool fits = is_told == present.has_value() && (!is_told || live.claim.id == *present);
    const bool has_solver = live.task.state != TaskState::assigned || !live.task.seats.empty();
    const bool has_claim = live.task.state != TaskState::running || present.has_value();
    if (!fits || !has_solver || !has_claim) return fail(kBadAnswer, "a task without the claim that belongs to it");
    return {};
}

Expected<TaskClaim> with_news(const TaskClaim* known, const TaskNews& news) {
    TaskClaim live;
    QUERN_TRY(live.task, with_fields(known == nullptr ? nullptr : &known->task, news.task));
    if (live.task.id != news.id) return fail(kBadAnswer, "news of another task");
    if (const auto present = chain::types::present_claim(live.task)) {
        const bool is_known = known != nullptr && known->claim.state != ClaimState::none && known->claim.id == *present;
        QUERN_TRY(live.claim, with_fields(is_known ? &known->claim : nullptr, news.claim));
    }
    QUERN_CHECK(check_claim(live));
    return live;
}

Expected<LiveTasks::Update> LiveTasks::update(NodeView& node) {
    Update update;
    auto news = node.market_news(known_ ? std::optional(head_) : std::nullopt);
    if (!news) {
        // The same question would have the same answer.
        if (news.error().name == kBadAnswer) known_ = false;
        return fail(std::move(news).error());
    }
    if (known_ && news->head == head_) return update;
    std::vector<std::uint64_t> unfit;
    update.all_anew = !known_ || !news->complete || news_bytes_ + news->bytes > kMaxNewsBytes;
    if (!update.all_anew) {
        unfit = take(*news);
        update.all_anew = !unfit.empty();
    }
    if (update.all_anew) {
        if (!unfit.empty())
            log::warning(log::Category::worker, "news of a task that do not fit it: all are read anew task={}",
                         unfit.front());
        QUERN_CHECK(read_all(node));
        for (const std::uint64_t id : unfit)
            if (!tasks_.contains(id)) left_out_.insert(id);
    }
    // The tasks may have been read as of later blocks: what is asked for next is what changed since this one.
    head_ = news->head;
    known_ = true;
    update.new_block = true;
    update.disputes = std::move(news->disputes);
    return update;
}

Status LiveTasks::read_all(NodeView& node) {
    QUERN_TRY(auto all, node.live_tasks());
    tasks_.clear();
    left_out_.clear();
    news_bytes_ = 0;
    for (TaskClaim& each : all) {
        const std::uint64_t id = each.task.id;
        tasks_[id] = std::make_shared<const TaskClaim>(std::move(each));
    }
    return {};
}

std::vector<std::uint64_t> LiveTasks::take(const MarketNews& news) {
    news_bytes_ += news.bytes;
    std::vector<std::uint64_t> unfit;
    for (const TaskNews& each : news.tasks) {
        const auto known = tasks_.find(each.id);
        auto live = with_news(known == tasks_.end() ? nullptr : known->second.get(), each);
        if (live) {
            tasks_[each.id] = std::make_shared<const TaskClaim>(std::move(*live));
            left_out_.erase(each.id);
        } else if (!left_out_.contains(each.id)) {
            unfit.push_back(each.id);
        }
    }
    for (const std::uint64_t id : news.ended) {
        tasks_.erase(id);
        left_out_.erase(id);
    }
    return unfit;
}

}  // namespace quern::compute::worker
