#include "rpc/evidence_report.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/uint256.h"
#include "crypto/hash.h"

namespace quern::rpc {
namespace {

const std::string kCommitment = "0xc001";
const std::string kEvidence = "0xe001";

// A node whose height grows with each pause; it puts what is sent into the next block.
class FakeNode {
public:
    Expected<Result> call(std::string_view method, const json::Value& params) {
        if (dead) return fault("http.connect_failed");
        const auto text = [&] { return std::string(*params.items()[0].as_string()); };
        if (method == "eth_blockNumber") return Result(quantity(height));
        if (method == "eth_sendRawTransaction") {
            if (text() == refused) return Result(rpc_fail(kServerError, "evidence.already_convicted"));
            sent.emplace_back(text(), height);
            return Result(hash_of(text()));
        }
        const auto found = std::find_if(sent.begin(), sent.end(),
                                        [&](const auto& transaction) { return hash_of(transaction.first) == text(); });
        if (found == sent.end()) return Result(json::Value());
        if (method == "eth_getTransactionByHash") return Result(json::Value::object({{"hash", text()}}));
        EXPECT_EQ(method, "eth_getTransactionReceipt");
        if (found->second == height) return Result(json::Value());
        return Result(json::Value::object({{"status", status}, {"blockNumber", quantity(found->second + 1)}}));
    }
    static std::string quantity(std::uint64_t number) { return Uint256(number).to_hex_quantity(); }
    static std::string hash_of(const std::string& raw) { return to_hex0x(crypto::keccak256(*from_hex(raw))); }

    Expected<std::string> report() {
        return report_evidence(
            [this](std::string_view method, const json::Value& params) { return call(method, params); },
            {kCommitment, kEvidence, 8},
            [this] {
                ++pauses;
                if (grows) ++height;
            });
    }

    std::vector<std::pair<std::string, std::uint64_t>> sent;  // and the height at which that was
    std::uint64_t height = 100;
    int pauses = 0;
    bool grows = true;
    bool dead = false;
    std::string refused;
    std::string status = "0x1";
};

TEST(EvidenceReport, shows_the_evidence_when_the_next_block_pays_for_it) {
    FakeNode node;
    const auto hash = node.report();
    ASSERT_TRUE(hash) << hash.error().to_string();
    EXPECT_EQ(*hash, FakeNode::hash_of(kEvidence));
    ASSERT_EQ(node.sent.size(), 2U);
    EXPECT_EQ(node.sent[0].first, kCommitment);
    EXPECT_EQ(node.sent[1].first, kEvidence);
    // The commitment is in block 101, the evidence in 109.
    EXPECT_EQ(node.sent[1].second, 108U);
}

TEST(EvidenceReport, goes_on_where_it_was_interrupted) {
    FakeNode node;
    node.sent.emplace_back(kCommitment, 80);
    ASSERT_TRUE(node.report());
    ASSERT_EQ(node.sent.size(), 2U);
    EXPECT_EQ(node.sent[1].first, kEvidence);
    EXPECT_EQ(node.pauses, 0);
}

TEST(EvidenceReport, keeps_the_evidence_when_the_commitment_comes_to_nothing) {
    FakeNode failed;
    failed.status = "0x0";
    EXPECT_EQ(failed.report().error().name, "evidence.refused");
    EXPECT_EQ(failed.sent.size(), 1U);
    FakeNode refuses;
    refuses.refused = kCommitment;
    EXPECT_EQ(refuses.report().error().to_string(), "evidence.refused: evidence.already_convicted");
    EXPECT_TRUE(refuses.sent.empty());
    FakeNode stands;
    stands.grows = false;
    EXPECT_EQ(stands.report().error().name, "evidence.not_old_enough");
    EXPECT_EQ(stands.pauses, kMaxReportWaits);
    EXPECT_EQ(stands.sent.size(), 1U);
    FakeNode dead;
    dead.dead = true;
    EXPECT_EQ(dead.report().error().name, "http.connect_failed");
}

TEST(EvidenceReport, says_when_others_were_first) {
    FakeNode node;
    node.refused = kEvidence;
    EXPECT_EQ(node.report().error().to_string(), "evidence.refused: evidence.already_convicted");
}

}  // namespace
}  // namespace quern::rpc
