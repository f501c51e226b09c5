#include "compute/client/progress.h"

#include <algorithm>
#include <utility>

#include "chain/market/work.h"
#include "chain/types/abi.h"
#include "chain/types/json_codec.h"
#include "compute/client/profilers.h"
#include "wallet/amount.h"

namespace quern::compute::client {
namespace {

namespace types = chain::types;

constexpr std::string_view kCheckpointPosted = "CheckpointPosted(uint64,uint64,bytes32,uint32)";  // doc/market.md
constexpr std::size_t kWord = 32;                                                                 // of the ABI

Uint256 refunds_in(const std::vector<types::Payment>& payments, const types::Address& to) {
    Uint256 total;
    for (const types::Payment& each : payments)
        if (each.to == to && each.reason == "refund") total = checked_add(total, each.amount).value_or(total);
    return total;
}

Expected<Look> parse_look(const json::Value& value) {
    Look look;
    QUERN_CHECK(types::from_json(value, look.task));
    if (const json::Value* claim = value.find("claim"); claim != nullptr && !claim->is_null())
        QUERN_CHECK(types::from_json(*claim, look.claim));
    if (const json::Value* next = value.find("nextClaim"); next != nullptr && !next->is_null()) {
        look.next.emplace();
        QUERN_CHECK(types::from_json(*next, *look.next));
    }
    return look;
}

Expected<std::vector<PastCheckpoint>> parse_checkpoints(const json::Value& logs) {
    std::vector<PastCheckpoint> past;
    QUERN_TRY(const auto items, logs.as_array());
    for (const json::Value& item : items) {
        QUERN_TRY(const std::string_view text, item.get_string("data"));
        QUERN_TRY(const Bytes data, from_hex(text));
        if (data.size() != 3 * kWord) return fail("train.bad_answer", "data of a checkpoint");
        const Uint256 step = Uint256::from_be(BytesView(data).first(kWord));
        const Uint256 loss = Uint256::from_be(BytesView(data).last(kWord));
        if (!step.fits_u64() || loss > Uint256(0xffffffff)) return fail("train.bad_answer", "a checkpoint's numbers");
        while (!past.empty() && past.back().step >= step.low_u64()) past.pop_back();
        past.push_back({step.low_u64(), static_cast<std::uint32_t>(loss.low_u64())});
    }
    return past;
}

bool has_loss(const types::Task& task, const types::Claim& claim) {
    return claim.state != types::ClaimState::none &&
           claim.step > chain::market::stretch_of(task, claim.id.stretch).before;
}

}  // namespace

Expected<Look> read_look(const json::Value& task) {
    auto look = parse_look(task);
    if (!look) return busy("train.bad_answer", "task_get: " + look.error().to_string());
    return look;
}

std::string state_of(const Look& look) {
    const bool runs = look.task.state == types::TaskState::running && look.claim.state != types::ClaimState::none;
    return runs ? to_string(look.claim.state) : to_string(look.task.state);
}

std::string reason_of(const Look& look) {
    const bool runs = look.task.state == types::TaskState::running && look.claim.state != types::ClaimState::none;
    return runs ? look.claim.reason : look.task.reason;
}

std::uint64_t step_of(const Look& look) {
    if (look.task.state == types::TaskState::settled) return look.task.steps;
    std::uint64_t step = 0;
    if (look.task.settled > 0) step = chain::market::stretch_of(look.task, look.task.settled - 1).last();
    if (look.task.state != types::TaskState::running) return step;
    if (look.claim.state != types::ClaimState::none && look.claim.state != types::ClaimState::voided)
        step = std::max(step, look.claim.step);
    if (look.next) step = std::max(step, look.next->step);
    return step;
}

std::optional<std::uint32_t> loss_of(const Look& look) {
    if (look.next && has_loss(look.task, *look.next)) return look.next->loss;
    if (has_loss(look.task, look.claim)) return look.claim.loss;
    return std::nullopt;
}

Uint256 refunded(const Look& look) {
    const Uint256 of_claim = refunds_in(look.claim.payments, look.task.submitter);
    return checked_add(refunds_in(look.task.payments, look.task.submitter), of_claim).value_or(of_claim);
}

Uint256 paid(const Look& look, const Uint256& escrow_at_first) {
    const Uint256 gone = checked_sub(escrow_at_first, look.task.escrow).value_or(Uint256());
    return checked_sub(gone, refunded(look)).value_or(Uint256());
}

json::Value checkpoint_filter(std::uint64_t task) {
    return json::Value::object({{"fromBlock", "0x0"},
                                {"toBlock", "latest"},
                                {"address", to_hex0x(types::group_address(types::KindGroup::tasks))},
                                {"topics", json::Value::array({to_hex0x(types::abi::signature_hash(kCheckpointPosted)),
                                                               to_hex0x(Uint256(task).to_be32())})}});
}

Expected<std::vector<PastCheckpoint>> read_checkpoints(const json::Value& logs) {
    auto past = parse_checkpoints(logs);
    if (!past) return busy("train.bad_answer", "eth_getLogs: " + past.error().to_string());
    return past;
}

void Follower::tell_of_profilers(const Look& look, std::vector<Event>& news) {
    if (look.task.state == types::TaskState::profiling) {
        Event event = profilers_event(look.task, look.market_ms);
        json::Value counts = event.data;
        counts.erase("leftS");
        if (std::string now = counts.dump(); std::exchange(told_of_profilers_, now) != now)
            news.push_back(std::move(event));
        return;
    }
    if (told_limits_) return;
    if (auto event = found_limits_event(look.task)) news.push_back(std::move(*event));
    told_limits_ = true;
}

std::vector<Event> Follower::take(const Look& look, std::uint64_t now_ms) {
    std::vector<Event> news;
    const std::string state = state_of(look);
    if (state != state_ || round_ != look.task.round) {
        const std::string reason = reason_of(look);
        std::string text = "task " + std::to_string(look.task.id) + " is " + state + " (" + reason + ")";
        if (look.task.round > 0) text += ", round " + std::to_string(look.task.round);
        news.push_back({"state",
                        json::Value::object({{"task", look.task.id},
                                             {"state", state},
                                             {"reason", reason},
                                             {"round", std::uint64_t{look.task.round}}}),
                        std::move(text)});
        state_ = state;
        round_ = look.task.round;
    }
    tell_of_profilers(look, news);
    if (look.task.state == types::TaskState::profiling) return news;
    progress_.take(step_of(look), loss_of(look), now_ms);
    if (told_ == progress_.step()) return news;
    told_ = progress_.step();
    const Uint256 cost = paid(look, job_->escrow);
    const std::uint64_t stretches = chain::market::stretch_count(look.task);
    json::Value told = progress_.describe();
    told.set("stretchesSettled", std::uint64_t{look.task.settled});
    told.set("stretches", stretches);
    told.set("paid", cost.to_decimal());
    std::string line = progress_.line();
    if (stretches > 1)
        line += "  " + std::to_string(look.task.settled) + " of " + std::to_string(stretches) + " stretches settled";
    line += "  paid " + wallet::in_qrn(cost) + " of " + wallet::in_qrn(job_->escrow) + " QRN";
    news.push_back({"progress", std::move(told), std::move(line), true});
    return news;
}

}  // namespace quern::compute::client
