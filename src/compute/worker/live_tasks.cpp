#include "compute/worker/live_tasks.h"

#include "base/log.h"
#include "chain/market/work.h"
#include "chain/types/json_codec.h"

namespace quern::compute::worker {
namespace {

using chain::types::ClaimState;
using chain::types::TaskClaim;
using chain::types::TaskState;

// Whether there is one of each who was drawn.
Status check_reports(const TaskClaim& live) {
    bool fit = live.reports.size() == live.claim.drawn;
    for (std::size_t i = 0; i < live.reports.size(); ++i)
        fit = fit && live.reports[i].claim == live.claim.id && live.reports[i].place == i;
    return fit ? Status{} : fail(kBadAnswer, "a claim without its reports");
}

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

// The claim after these fields were changed, with its reports, which are told all together.
Status take_claim(const TaskClaim* known, const json::Value& fields, TaskClaim& live) {
    QUERN_TRY(live.claim, with_fields(known == nullptr ? nullptr : &known->claim, fields));
    if (known != nullptr) live.custody = known->custody;
    if (const json::Value* custody = fields.is_null() ? nullptr : fields.find("custody"))
        QUERN_CHECK(read_custody(*custody, live));
    const json::Value* reports = fields.is_null() ? nullptr : fields.find("reports");
    if (reports != nullptr) return read_reports(*reports, live);
    if (known != nullptr) live.reports = known->reports;
    return check_reports(live);
}

// The stretch is one that the task has: others would lie beyond its steps.
bool is_claim(const TaskClaim& live, const chain::types::ClaimId& id) {
    return live.claim.id == id && id.stretch < chain::market::stretch_count(live.task);
}

}  // namespace

Status read_reports(const json::Value& list, TaskClaim& live) {
    QUERN_TRY(const auto items, list.as_array());
    if (items.size() != live.claim.drawn) return fail(kBadAnswer, "a claim without its reports");
    live.reports.clear();
    for (const json::Value& item : items) {
        QUERN_TRY(auto report, chain::types::record_from_json<chain::types::VerifierReport>(item));
        live.reports.push_back(std::move(report));
    }
    return check_reports(live);
}

Status read_custody(const json::Value& record, TaskClaim& live) {
    live.custody.reset();
    if (record.is_null()) return {};
    QUERN_TRY(live.custody, chain::types::record_from_json<chain::types::Custody>(record));
    if (live.custody->claim != live.claim.id || live.custody->custodians.size() > chain::types::kMaxCustodians)
        return fail(kBadAnswer, "custodians of another claim");
    return {};
}

Status check_claim(const TaskClaim& live) {
    const auto present = chain::types::present_claim(live.task);
    const bool is_told = live.claim.state != ClaimState::none;
    const bool fits = is_told == present.has_value() && (!is_told || is_claim(live, *present));
    const bool has_solver = live.task.state != TaskState::assigned || !live.task.seats.empty();
    const bool has_claim = live.task.state != TaskState::running || present.has_value();
    if (!fits || !has_solver || !has_claim) return fail(kBadAnswer, "a task without the claim that belongs to it");
    return {};
}

Status check_next(const TaskClaim& live) {
    const auto next = chain::types::next_claim(live.task);
    if (live.claim.state == ClaimState::none || !next || !is_claim(live, *next))
        return fail(kBadAnswer, "a claim that does not belong to its task");
    return {};
}

Expected<std::optional<TaskClaim>> next_with_news(const TaskClaim* known, const chain::types::Task& task,
                                                  const TaskNews& news) {
    const auto id = chain::types::next_claim(task);
    if (!id) return std::optional<TaskClaim>();
    TaskClaim live{task, {}, {}, {}};
    QUERN_CHECK(take_claim(known != nullptr && known->claim.id == *id ? known : nullptr, news.next, live));
    QUERN_CHECK(check_next(live));
    return std::optional(std::move(live));
}

Expected<TaskClaim> with_news(const TaskClaim* known, const TaskNews& news) {
    TaskClaim live;
    QUERN_TRY(live.task, with_fields(known == nullptr ? nullptr : &known->task, news.task));
    if (live.task.id != news.id) return fail(kBadAnswer, "news of another task");
    if (const auto present = chain::types::present_claim(live.task)) {
        const bool is_known = known != nullptr && known->claim.state != ClaimState::none && known->claim.id == *present;
        QUERN_CHECK(take_claim(is_known ? known : nullptr, news.claim, live));
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
    const bool has_gap = !known_ || !news->complete;
    if (!has_gap) unfit = take(*news);
    if (!unfit.empty())
        log::warning(log::Category::worker, "news of a task that do not fit it: all are read anew task={}",
                     unfit.front());
    if (has_gap || !unfit.empty() || news_bytes_ > kMaxNewsBytes) {
        Status read = read_all(node);
        update.all_anew = read.has_value();
        // News without a gap say as much: whoever fills the list with tasks must not blind those who follow it.
        if (!read && (has_gap || !unfit.empty())) return fail(std::move(read).error());
        if (!read) log::warning(log::Category::worker, "tasks not read anew reason={}", read.error().to_string());
        news_bytes_ = 0;
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
    next_.clear();
    left_out_.clear();
    news_bytes_ = 0;
    for (TaskClaim& each : all) {
        const std::uint64_t id = each.task.id;
        Tasks& tasks = chain::types::next_claim(each.task) == each.claim.id ? next_ : tasks_;
        tasks[id] = std::make_shared<const TaskClaim>(std::move(each));
    }
    return {};
}

std::vector<std::uint64_t> LiveTasks::take(const MarketNews& news) {
    news_bytes_ += news.bytes;
    std::vector<std::uint64_t> unfit;
    for (const TaskNews& each : news.tasks) {
        const auto known = tasks_.find(each.id);
        const auto known_next = next_.find(each.id);
        auto live = with_news(known == tasks_.end() ? nullptr : known->second.get(), each);
        auto next =
            !live ? fail(live.error())
                  : next_with_news(known_next == next_.end() ? nullptr : known_next->second.get(), live->task, each);
        if (next) {
            tasks_[each.id] = std::make_shared<const TaskClaim>(std::move(*live));
            next_.erase(each.id);
            if (*next) next_[each.id] = std::make_shared<const TaskClaim>(std::move(**next));
            left_out_.erase(each.id);
        } else if (!left_out_.contains(each.id)) {
            unfit.push_back(each.id);
        }
    }
    for (const std::uint64_t id : news.ended) {
        tasks_.erase(id);
        next_.erase(id);
        left_out_.erase(id);
    }
    return unfit;
}

}  // namespace quern::compute::worker
