#include "compute/client/submission.h"

#include "chain/types/abi.h"
#include "compute/worker/sender.h"
#include "wallet/amount.h"
#include "wallet/transaction.h"

namespace quern::compute::client {
namespace {

namespace types = chain::types;
using wallet::in_qrn;

constexpr auto kKind = types::NativeKind::task_submit;
constexpr std::string_view kSubmitted = "TaskSubmitted(uint64,address,uint256,uint256)";  // doc/market.md

Expected<Uint256> sum(const Uint256& a, const Uint256& b) {
    const auto total = checked_add(a, b);
    if (!total) return fail("task.price_overflow");
    return *total;
}

tl::unexpected<Error> too_small(const Uint256& budget, const Uint256& needed, const std::string& how) {
    return fail("train.budget_too_small",
                "--budget " + in_qrn(budget) + " QRN; " + how + " takes " + in_qrn(needed) + " QRN, fee included");
}

Status check_balance(const types::Address& from, const Uint256& balance, const Uint256& needed) {
    if (balance >= needed) return {};
    return fail("train.not_enough_balance", types::to_checksum_address(from) + " has " + in_qrn(balance) +
                                                " QRN, the task takes " + in_qrn(needed) + " at most, fee included");
}

Expected<Uint256> number_of(const json::Value& receipt, std::string_view name) {
    QUERN_TRY(const std::string_view text, receipt.get_string(name));
    return Uint256::from_hex_quantity(text);
}

Expected<Submitted> parse_receipt(const json::Value& receipt) {
    Submitted found;
    QUERN_TRY(const Uint256 gas, number_of(receipt, "gasUsed"));
    QUERN_TRY(const Uint256 price, number_of(receipt, "effectiveGasPrice"));
    if (!gas.fits_u64()) return fail("train.bad_receipt", "gasUsed");
    const auto fee = mul_div(price, gas, Uint256(1));
    if (!fee) return fail("train.bad_receipt", "effectiveGasPrice");
    found.fee = *fee;
    const std::string signature = to_hex0x(types::abi::signature_hash(kSubmitted));
    QUERN_TRY(const auto logs, receipt.get_array("logs"));
    for (const json::Value& log : logs) {
        QUERN_TRY(const auto topics, log.get_array("topics"));
        if (topics.size() < 2 || !(topics[0] == json::Value(signature))) continue;
        QUERN_TRY(const std::string_view text, topics[1].as_string());
        QUERN_TRY(const Hash32 word, fixed_from_hex<Hash32::kSize>(text));
        const Uint256 id = Uint256::from_be(word.view());
        if (!id.fits_u64()) return fail("train.bad_receipt", "task");
        found.task = id.low_u64();
        return found;
    }
    return fail("train.bad_receipt", "no task in it");
}

}  // namespace

Expected<Uint256> parse_budget(const std::string& text) {
    std::string amount = text;
    const std::size_t unit = amount.find_first_not_of("0123456789.");
    if (unit != std::string::npos && unit > 0 && unit + 1 < amount.size() && amount[unit] == ' ') amount.erase(unit, 1);
    return wallet::amount_of_option("--budget", amount);
}

Expected<Offer> make_offer(worker::NodeView& node, const types::Address& from, const Uint256& balance,
                           std::uint64_t chain_id, types::TaskSubmitPayload spec, const wallet::SpecOptions& options,
                           const Uint256& budget) {
    const bool capped = !spec.money.price_cap.is_zero();
    if (!capped) spec.money.price_cap = Uint256(1);
    QUERN_TRY(const wallet::Price least, wallet::price_of(spec, options));
    const std::string how = capped ? "the task at that price cap" : "the task even at 1 grain per work unit";
    // What a node says of a task that the account cannot pay is less than this.
    if (budget < least.escrow.total) return too_small(budget, least.escrow.total, how);
    QUERN_CHECK(check_balance(from, balance, least.escrow.total));

    Offer offer;
    const auto cap = [](const Uint256& price) -> Expected<Uint256> {
        const auto raised = mul_div(price, Uint256(worker::kFeeHeadroom), Uint256(1));
        if (!raised) return busy("train.gas_price", price.to_decimal());
        return *raised;
    };
    QUERN_TRY(offer.tx, worker::compose_native(node, from, chain_id, kKind, types::encode_record(spec), cap));
    const auto fee = mul_div(offer.tx.max_fee_per_gas, Uint256(offer.tx.gas_limit), Uint256(1));
    if (!fee) return busy("train.gas_price", offer.tx.max_fee_per_gas.to_decimal());
    offer.fee = *fee;
    QUERN_TRY(const Uint256 needed, sum(least.escrow.total, offer.fee));
    if (budget < needed) return too_small(budget, needed, how);
    if (!capped) {
        QUERN_TRY(spec.money.price_cap, wallet::price_cap_within(spec, options, budget - offer.fee));
    }
    QUERN_TRY(offer.price, wallet::price_of(spec, options));
    QUERN_TRY(offer.most, sum(offer.price.escrow.total, offer.fee));
    QUERN_CHECK(check_balance(from, balance, offer.most));
    offer.tx.data = types::encode_record(spec);
    offer.spec = std::move(spec);
    return offer;
}

Expected<Job> sign_offer(worker::NodeView& node, const Offer& offer, const crypto::PrivateKey& key,
                         std::uint64_t chain_id, const Hash32& training) {
    types::Transaction tx = offer.tx;
    QUERN_TRY(tx.nonce, node.pending_nonce(crypto::address20(key)));
    QUERN_TRY(const types::RecoveredTransaction done, wallet::sign(std::move(tx), key));
    Job job;
    job.stage = stage::kSubmitting;
    job.training = training;
    job.chain_id = chain_id;
    job.submitter = done.sender;
    job.transaction = done.encoded;
    job.escrow = offer.price.escrow.total;
    job.fee = offer.fee;
    return job;
}

Hash32 transaction_of(const Job& job) { return types::transaction_hash(job.transaction); }

Expected<std::optional<worker::TransactionOutcome>> push(worker::NodeView& node, const Job& job) {
    const Hash32 hash = transaction_of(job);
    QUERN_TRY(auto outcome, node.outcome(hash));
    if (outcome) return outcome;
    QUERN_TRY(const bool known, node.knows(hash));
    if (known) return outcome;
    const auto sent = node.send_raw(job.transaction);
    if (sent) return outcome;
    if (sent.error().is_busy()) return fail(sent.error());
    QUERN_TRY(outcome, node.outcome(hash));  // between the questions
    if (outcome) return outcome;
    return fail("train.refused", sent.error().detail.empty() ? sent.error().to_string() : sent.error().detail);
}

Expected<Submitted> read_receipt(const json::Value& receipt) {
    auto found = parse_receipt(receipt);
    if (!found) return busy("train.bad_receipt", found.error().to_string());
    return found;
}

}  // namespace quern::compute::client
