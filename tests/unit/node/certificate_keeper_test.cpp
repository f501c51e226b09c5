#include "node/agree/certificate_keeper.h"

#include <algorithm>

#include "chain/exec/block_validation.h"
#include "chain/exec/system/epoch_reader.h"
#include "chain/store/certificate_store.h"
#include "chain_fixture.h"
#include "node/agree/fork_audit.h"
#include "node/net/block_server.h"

namespace quern::node {
namespace {

namespace consensus = chain::consensus;
namespace messages = p2p::messages;
namespace sdbft = chain::consensus::sdbft;
using chain::store::CertificateStore;
using consensus::Certificate;
using consensus::VoteType;

constexpr std::uint64_t kEpochLength = 5;

chain::exec::Genesis tiny_epochs() {
    auto genesis = test_genesis();
    genesis.params.epoch_length = kEpochLength;
    genesis.params.staking.unbonding_blocks = 20 * kEpochLength;
    return genesis;
}

// A chain with what keeps its certificates; its one validator signs whatever the test wants.
class KeeperTest : public ChainFixture {
public:
    void TestBody() override {}
    KeeperTest() : ChainFixture(tiny_epochs()) {
        keeper_ = std::make_unique<CertificateKeeper>(
            CertificateKeeper::Parts{*store_, chain_->board(), duties_, kEpochLength, 20 * kEpochLength,
                                     [this](std::uint64_t epoch) { return committee(epoch); },
                                     [this](sdbft::Evidence evidence) {
                                         const std::lock_guard lock(mutex_);
                                         evidence_.push_back(std::move(evidence));
                                     }});
        server_ = std::make_unique<BlockServer>(chain_->board(), kEpochLength);
    }
    ~KeeperTest() override { duties_.stop(); }

    [[nodiscard]] std::optional<consensus::Committee> committee(std::uint64_t epoch) const {
        auto found = chain::exec::system::committee_of_epoch(chain_->board().latest()->state, epoch);
        return found ? std::optional(std::move(*found)) : std::nullopt;
    }
    [[nodiscard]] RangeRules rules() const {
        return {{setup_->genesis_hash, setup_->genesis.params.chain_id},
                sdbft::EpochHeights(kEpochLength),
                [](BytesView block) { return chain::exec::body_matches(block); }};
    }
    [[nodiscard]] Certificate certificate(VoteType type, std::uint64_t epoch, std::uint64_t view,
                                          const Hash32& hash) const {
        const consensus::Vote vote{type, epoch, view, hash};
        return consensus::make_certificate(vote, *committee(epoch),
                                           {{0, consensus::sign_vote(rules().chain, vote, test_key(kValidator))}});
    }
    // One block, as consensus would make it: notarized and final, after `skipped` views that were given up.
    void make_final_block(std::uint64_t skipped = 0) {
        clock_.advance(setup_->genesis.params.max_idle_ms);
        auto request = next_request();
        for (std::uint64_t i = 0; i < skipped; ++i)
            keeper_->keep(certificate(VoteType::nullify, request.epoch, request.view++, {}));
        const auto built = chain_->build_block(request);
        ASSERT_TRUE(built) << built.error().to_string();
        keeper_->keep(certificate(VoteType::notarize, request.epoch, request.view, built->hash));
        keeper_->keep(certificate(VoteType::finalize, request.epoch, request.view, built->hash));
        keeper_->flush();
        ASSERT_TRUE(commit(*built));
    }
    [[nodiscard]] std::size_t kept(std::uint64_t epoch, std::uint64_t view) const {
        return CertificateStore(*store_).find(epoch, view)->size();
    }
    // Waits for what entered() leaves to the serving thread.
    void enter(std::uint64_t epoch) {
        duties_.start();
        keeper_->entered(epoch);
        while (duties_.waiting() != 0) std::this_thread::yield();
        duties_.stop();
    }
    [[nodiscard]] messages::Status status() const { return {chain_->tip().number, chain_->tip().hash, 0, 0, 0}; }

    std::mutex mutex_;
    DutyQueue duties_{clock_};
    std::vector<sdbft::Evidence> evidence_;
    std::unique_ptr<CertificateKeeper> keeper_;
    std::unique_ptr<BlockServer> server_;

    using ChainFixture::chain_;
    using ChainFixture::clock_;
    using ChainFixture::store_;
};

TEST_F(KeeperTest, finds_what_contradicts_a_certificate_among_those_it_keeps) {
    keeper_->keep(certificate(VoteType::finalize, 0, 7, Hash32{{1}}));
    keeper_->keep(certificate(VoteType::notarize, 0, 7, Hash32{{1}}));
    keeper_->flush();
    keeper_->keep(certificate(VoteType::nullify, 0, 6, {}));
    keeper_->flush();
    EXPECT_TRUE(evidence_.empty());
    keeper_->keep(certificate(VoteType::nullify, 0, 7, {}));
    keeper_->flush();
    ASSERT_EQ(evidence_.size(), 1U);
    EXPECT_EQ(crypto::address20(evidence_[0].signer), test_address(kValidator));
    EXPECT_TRUE(check_evidence(evidence_[0], rules().chain, sdbft::EcdsaScheme()));
    // Two that come together.
    keeper_->keep(certificate(VoteType::finalize, 0, 9, Hash32{{1}}));
    keeper_->keep(certificate(VoteType::finalize, 0, 9, Hash32{{2}}));
    keeper_->flush();
    EXPECT_EQ(evidence_.size(), 2U);
}

TEST_F(KeeperTest, finds_what_contradicts_the_chain_itself_long_after) {
    for (int i = 0; i < 12 * static_cast<int>(kEpochLength); ++i) make_final_block();
    const auto old = consensus::tip_of(types::decode_block(server_->range({7, 1, 1 << 20}).blocks.at(0).block)->header);
    EXPECT_EQ(kept(old.epoch, old.view), 2U);
    enter(chain_->tip().epoch + 1);
    EXPECT_EQ(kept(old.epoch, old.view), 0U) << "the chain holds them itself";
    EXPECT_EQ(server_->certificates({static_cast<std::uint8_t>(VoteType::finalize), old.epoch, old.view}).size(), 1U);
    keeper_->keep(certificate(VoteType::notarize, old.epoch, old.view, Hash32{{5}}));
    keeper_->flush();
    EXPECT_EQ(evidence_.size(), 1U);
    // Both sides are served to whoever asks.
    const auto served = server_->certificates({static_cast<std::uint8_t>(VoteType::notarize), old.epoch, old.view});
    EXPECT_LE(served.size(), 2U);
    EXPECT_GE(served.size(), 1U);
}

TEST_F(KeeperTest, keeps_for_the_window_what_the_chain_does_not_hold) {
    make_final_block();
    make_final_block(2);
    const std::uint64_t given_up = 2;
    keeper_->keep(certificate(VoteType::notarize, 0, given_up, Hash32{{7}}));  // a block that did not come on the chain
    keeper_->flush();
    while (chain_->tip().epoch < 12) make_final_block();
    enter(chain_->tip().epoch);
    EXPECT_EQ(kept(0, given_up), 2U);
    EXPECT_EQ(kept(0, 1), 0U);
    const auto last = consensus::tip_of(
        types::decode_block(server_->range({kEpochLength - 1, 1, 1 << 20}).blocks.at(0).block)->header);
    EXPECT_EQ(kept(0, last.view), 2U) << "an epoch's last block may be notarized in several views";
    EXPECT_EQ(kept(11, 1), 2U) << "the newest epochs are whole";
    // Beyond the window nobody can be convicted any more.
    enter(20);
    EXPECT_EQ(kept(0, given_up), 2U);
    enter(22);
    EXPECT_EQ(kept(0, given_up), 0U);
    EXPECT_EQ(kept(0, last.view), 0U);
}

TEST_F(KeeperTest, a_late_finalization_is_served_with_its_block) {
    clock_.advance(setup_->genesis.params.max_idle_ms);
    const auto built = chain_->build_block(next_request());
    ASSERT_TRUE(built);
    // It became final with a later block.
    ASSERT_TRUE(chain_->commit(built->hash, built->block, std::nullopt));
    EXPECT_TRUE(server_->range({1, 1, 1 << 20}).blocks.at(0).certificate.empty());
    const auto late = certificate(VoteType::finalize, 0, tip_of(*built).view, built->hash);
    keeper_->keep(late);
    keeper_->flush();
    make_final_block();  // readers see it with the next block
    EXPECT_EQ(server_->range({1, 1, 1 << 20}).blocks.at(0).certificate, encode(late));
}

TEST_F(KeeperTest, loses_none_when_the_queue_is_full) {
    while (duties_.post_own([] {})) {
    }
    constexpr std::size_t kMany = 3 * kMaxUnwrittenCertificates / 2;
    for (std::size_t i = 0; i < kMany; ++i) keeper_->keep(certificate(VoteType::nullify, 1, 1 + i, {}));
    keeper_->flush();
    std::size_t found = 0;
    for (std::size_t i = 0; i < kMany; ++i) found += kept(1, 1 + i);
    EXPECT_EQ(found, kMany);
}

// Two nodes whose chains part after a few blocks: their validator signs both.
class ForkTest : public KeeperTest {
protected:
    ForkTest() {
        for (int i = 0; i < 2; ++i) {
            make_final_block();
            other_.make_final_block();
        }
        EXPECT_EQ(chain_->tip().hash, other_.chain_->tip().hash);
        audit_ = std::make_unique<ForkAudit>(
            ForkAudit::Parts{.clock = clock_,
                             .board = chain_->board(),
                             .duties = duties_,
                             .certificates = *keeper_,
                             .rules = rules(),
                             .committee = [this](std::uint64_t epoch) { return committee(epoch); },
                             .request_range =
                                 [this](const Bytes20&, const messages::GetRange& asked, std::uint64_t,
                                        p2p::Answer<messages::Range> answer) {
                                     ++requests_;
                                     auto range = other_.server_->range(asked);
                                     if (spoil_) spoil_(range);
                                     answer(std::move(range));
                                 },
                             .request_certificate =
                                 [this](const Bytes20&, const messages::GetCertificate& asked, std::uint64_t,
                                        p2p::Answer<messages::CertificateAnswer> answer) {
                                     auto found = other_.server_->certificates(asked);
                                     if (found.empty()) return answer(fail("network.refused", "not_found"));
                                     answer(messages::CertificateAnswer{std::move(found)});
                                 },
                             .report = [this](const Bytes20&, p2p::Offence offence) { reports_.push_back(offence); }});
    }
    void hear_of_the_other() {
        duties_.start();
        audit_->said(peer_, other_.status());
        // Each step posts the next one before it ends.
        for (int quiet = 0; quiet < 20; quiet = duties_.waiting() == 0 ? quiet + 1 : 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        duties_.stop();
        keeper_->flush();
    }
    const Bytes20 peer_{{9}};
    KeeperTest other_;
    std::unique_ptr<ForkAudit> audit_;
    std::function<void(messages::Range&)> spoil_;
    std::vector<p2p::Offence> reports_;
    std::size_t requests_ = 0;
};

TEST_F(ForkTest, convicts_who_finalized_two_blocks_in_one_view) {
    other_.clock_.advance(1);
    make_final_block();
    other_.make_final_block();
    make_final_block();
    EXPECT_NE(chain_->tip().hash, other_.chain_->tip().hash);
    hear_of_the_other();
    ASSERT_FALSE(evidence_.empty());
    for (const auto& evidence : evidence_) EXPECT_TRUE(check_evidence(evidence, rules().chain, sdbft::EcdsaScheme()));
    EXPECT_TRUE(reports_.empty());
}

TEST_F(ForkTest, convicts_who_gave_up_a_view_there_that_is_final_here) {
    make_final_block();
    other_.make_final_block(1);  // nothing that is here contradicts it: the peer has to be asked
    hear_of_the_other();
    ASSERT_FALSE(evidence_.empty());
    EXPECT_TRUE(check_evidence(evidence_[0], rules().chain, sdbft::EcdsaScheme()));
}

TEST_F(ForkTest, convicts_who_gave_up_a_view_here_that_is_final_there) {
    make_final_block(1);
    make_final_block();
    other_.make_final_block();
    hear_of_the_other();
    ASSERT_FALSE(evidence_.empty());
    EXPECT_TRUE(check_evidence(evidence_[0], rules().chain, sdbft::EcdsaScheme()));
}

TEST_F(ForkTest, a_peer_that_lies_about_its_chain_pays_and_is_not_asked_again_soon) {
    make_final_block();
    auto lie = other_.status();
    lie.finalized_hash.data[0] ^= 1;
    duties_.start();
    for (int i = 0; i < 10; ++i) {
        audit_->said(peer_, lie);
        clock_.advance(kCompareMs + 1);
        while (duties_.waiting() != 0) std::this_thread::yield();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    duties_.stop();
    EXPECT_EQ(requests_, 1U);
    EXPECT_EQ(reports_, std::vector{p2p::Offence::invalid_consensus});
    EXPECT_TRUE(evidence_.empty());
}

TEST_F(ForkTest, believes_no_fork_without_a_finalization) {
    other_.clock_.advance(1);
    make_final_block();
    other_.make_final_block();
    spoil_ = [](messages::Range& range) {
        for (auto& block : range.blocks) block.certificate.clear();
    };
    hear_of_the_other();
    EXPECT_TRUE(evidence_.empty());
    EXPECT_EQ(reports_, std::vector{p2p::Offence::invalid_consensus});
}

}  // namespace
}  // namespace quern::node
