#include "rpc/evidence_report.h"

#include "base/bytes.h"
#include "crypto/hash.h"
#include "rpc/values.h"

namespace quern::rpc {
namespace {

Expected<json::Value> ask(const Call& call, std::string_view method, json::Value params) {
    QUERN_TRY(auto answer, call(method, std::move(params)));
    if (!answer) return fail("evidence.refused", answer.error().message);
    return std::move(*answer);
}

Expected<std::string> send(const Call& call, const std::string& raw) {
    QUERN_TRY(const auto hash, ask(call, "eth_sendRawTransaction", json::Value::array({raw})));
    QUERN_TRY(const auto text, hash.as_string());
    return std::string(text);
}

// Calls question() until it has an answer.
template <class Question>
auto wait_for(const Question& question, const std::function<void()>& pause) -> decltype(question()) {
    for (int i = 0; i < kMaxReportWaits; ++i) {
        auto answer = question();
        if (!answer || *answer) return answer;
        pause();
    }
    return fail("evidence.not_old_enough", "the commitment still has to wait");
}

// The block that the transaction is in, when it is in one.
Expected<std::optional<std::uint64_t>> block_of(const Call& call, const std::string& hash) {
    QUERN_TRY(const auto receipt, ask(call, "eth_getTransactionReceipt", json::Value::array({hash})));
    if (receipt.is_null()) return std::nullopt;
    QUERN_TRY(const auto status, receipt.get_string("status"));
    if (status != "0x1") return fail("evidence.refused", "the commitment failed: " + hash);
    QUERN_TRY(const auto block, receipt.get_string("blockNumber"));
    return read_quantity64(json::Value(std::string(block)));
}

Expected<std::optional<std::uint64_t>> height_from(const Call& call, std::uint64_t least) {
    QUERN_TRY(const auto answer, ask(call, "eth_blockNumber", json::Value::array()));
    QUERN_TRY(const std::uint64_t height, read_quantity64(answer));
    if (height < least) return std::nullopt;
    return height;
}

}  // namespace

Expected<std::string> report_evidence(const Call& call, const EvidenceReport& report,
                                      const std::function<void()>& pause) {
    QUERN_TRY(const Bytes commitment, from_hex(report.commitment));
    const std::string hash = to_hex0x(crypto::keccak256(commitment));
    QUERN_TRY(const auto known, ask(call, "eth_getTransactionByHash", json::Value::array({hash})));
    if (known.is_null()) QUERN_CHECK(send(call, report.commitment));
    QUERN_TRY(const auto block, wait_for([&] { return block_of(call, hash); }, pause));
    // The block after this height is the first in which the evidence can be.
    QUERN_CHECK(wait_for([&] { return height_from(call, *block + report.blocks - 1); }, pause));
    return send(call, report.evidence);
}

}  // namespace quern::rpc
