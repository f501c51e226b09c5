#include "chain/consensus/single_validator.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "chain/consensus/driver.h"

namespace quern::chain::consensus {
namespace {

crypto::PrivateKey key(std::uint8_t seed = 1) {
    Hash32 secret;
    secret.data[31] = seed;
    return std::move(*crypto::PrivateKey::from_bytes(secret));
}

class MemoryJournal final : public SafetyJournal {
public:
    const std::optional<SignedProposal>& last() const override { return last_; }
    Status store(const SignedProposal& proposal) override {
        if (fail_next) return fail("consensus.journal_write_failed");
        QUERN_CHECK(check_may_sign(last_, proposal));
        last_ = proposal;
        return {};
    }
    std::optional<SignedProposal> last_;
    bool fail_next = false;
};

// A chain of real headers without transactions. `die_at_commit` stands for a process that ends between its signature
// and its commit.
class Chain final : public BlockProducer {
public:
    Chain(const params::ChainParams& params, Committee committee) : params_(params), committee_(std::move(committee)) {
        tips.push_back({0, Hash32{{0xaa}}, 0, 0, 1'000'000, Hash32{{0xbb}}});
        certificates.push_back({});
    }
    Expected<BuiltBlock> build_block(const BuildRequest& request) override {
        types::Block block;
        auto& header = block.header;
        header.number = request.parent.number + 1;
        header.parent_hash = request.parent.hash;
        header.gas_limit = params_.block_gas_limit;
        header.timestamp = request.timestamp_ms / 1000;
        header.prev_randao = request.beacon;
        header.gas_used = salt;
        block.parent_certificate = certificates.back();
        header.consensus = {request.view,
                            request.epoch,
                            certificate_hash(certificates.back()),
                            committee_.hash(),
                            committee_.hash(),
                            Hash32{},
                            request.beacon,
                            {},
                            request.timestamp_ms};
        ++built;
        return BuiltBlock{types::hash_of(header), types::encode(block)};
    }
    Status validate_block(BytesView bytes) override {
        QUERN_TRY(const auto block, types::decode_block(bytes));
        return check_header(params_, tips.back(), certificates.back(), committee_, block);
    }
    Expected<Tip> commit(BytesView bytes, const Hash32& hash, const Certificate& certificate) override {
        if (die_at_commit) return fail("test.died");
        QUERN_CHECK(validate_block(bytes));
        QUERN_CHECK(verify_certificate(certificate, committee_, {Hash32{{1}}, 7878}));
        if (certificate.hash != hash) return fail("test.wrong_hash");
        blocks.push_back(to_bytes(bytes));
        certificates.push_back(encode(certificate));
        tips.push_back(tip_of(types::decode_block(bytes)->header));
        return tips.back();
    }
    params::ChainParams params_;
    Committee committee_;
    std::vector<Tip> tips;
    std::vector<Bytes> certificates;
    std::vector<Bytes> blocks;
    int built = 0;
    std::uint64_t salt = 0;  // another value makes another block
    bool die_at_commit = false;
};

class SingleValidatorTest : public ::testing::Test {
protected:
    SingleValidatorTest()
        : committee_(*Committee::make({{crypto::derive_public(key()), 100}})), chain_(params(), committee_) {}
    static params::ChainParams params() {
        params::ChainParams result;
        result.epoch_length = 4;
        return result;
    }
    // As after a restart of the process: a new engine over what the disk holds.
    void restart(bool accept_missing_journal = false) {
        driver_.reset();
        engine_ = std::make_unique<SingleValidator>(std::move(*SingleValidator::make(
            {params(), {Hash32{{1}}, 7878}, committee_, chain_.tips.back(), journal_.last(), accept_missing_journal},
            key())));
        driver_ = std::make_unique<Driver>(*engine_, chain_, journal_, clock_);
    }
    Status start(bool accept_missing_journal = false) {
        restart(accept_missing_journal);
        return driver_->handle(event::Started{});
    }
    void pass(std::uint64_t ms) {
        clock_.advance(ms);
        const auto status = driver_->handle(event::TimePassed{});
        ASSERT_TRUE(status) << status.error().to_string();
    }
    [[nodiscard]] std::uint64_t height() const { return chain_.tips.back().number; }

    ManualClock clock_{2'000'000};
    Committee committee_;
    Chain chain_;
    MemoryJournal journal_;
    std::unique_ptr<SingleValidator> engine_;
    std::unique_ptr<Driver> driver_;
};

TEST_F(SingleValidatorTest, makes_an_empty_block_after_max_idle) {
    ASSERT_TRUE(start());
    EXPECT_EQ(driver_->wake_at(), 2'001'000);
    pass(999);
    EXPECT_EQ(height(), 0U);
    pass(1);
    EXPECT_EQ(height(), 1U);
    EXPECT_EQ(driver_->wake_at(), 2'002'000);
}

TEST_F(SingleValidatorTest, makes_a_block_after_min_block_ms_when_transactions_wait) {
    ASSERT_TRUE(start());
    pass(150);
    ASSERT_TRUE(driver_->handle(event::TransactionsWait{true}));
    EXPECT_EQ(height(), 0U);
    EXPECT_EQ(driver_->wake_at(), 2'000'200);
    pass(50);
    EXPECT_EQ(height(), 1U);
    ASSERT_TRUE(driver_->handle(event::TransactionsWait{false}));
    pass(900);
    EXPECT_EQ(height(), 1U);
    // A transaction that comes after the pause goes in at once.
    ASSERT_TRUE(driver_->handle(event::TransactionsWait{true}));
    EXPECT_EQ(height(), 2U);
}

TEST_F(SingleValidatorTest, counts_views_from_one_in_each_epoch) {
    ASSERT_TRUE(start());
    for (int i = 0; i < 9; ++i) pass(1000);
    ASSERT_EQ(height(), 9U);
    EXPECT_EQ(chain_.tips[1].view, 1U);
    EXPECT_EQ(chain_.tips[3].view, 3U);
    EXPECT_EQ(chain_.tips[3].epoch, 0U);
    EXPECT_EQ(chain_.tips[4].view, 1U);
    EXPECT_EQ(chain_.tips[4].epoch, 1U);
    EXPECT_EQ(chain_.tips[8].epoch, 2U);
}

TEST_F(SingleValidatorTest, stores_the_proposal_before_it_signs) {
    ASSERT_TRUE(start());
    journal_.fail_next = true;
    clock_.advance(1000);
    EXPECT_EQ(driver_->handle(event::TimePassed{}).error().name, "consensus.journal_write_failed");
    EXPECT_EQ(height(), 0U);
    EXPECT_TRUE(chain_.certificates.back().empty());
}

TEST_F(SingleValidatorTest, proposes_the_same_bytes_after_a_crash_between_signature_and_commit) {
    ASSERT_TRUE(start());
    pass(1000);
    chain_.die_at_commit = true;
    clock_.advance(1000);
    EXPECT_EQ(driver_->handle(event::TimePassed{}).error().name, "test.died");
    const auto signed_block = journal_.last()->block;
    EXPECT_EQ(height(), 1U);

    chain_.die_at_commit = false;
    chain_.salt = 99;  // whatever would be built now differs
    const int built = chain_.built;
    ASSERT_TRUE(start());
    EXPECT_EQ(height(), 2U);
    EXPECT_EQ(chain_.built, built);
    EXPECT_EQ(chain_.blocks.back(), signed_block);
    pass(1000);
    EXPECT_EQ(height(), 3U);
}

TEST_F(SingleValidatorTest, starts_over_without_proposing_again_when_the_signed_block_is_committed) {
    ASSERT_TRUE(start());
    pass(1000);
    ASSERT_TRUE(start());
    EXPECT_EQ(height(), 1U);
    pass(1000);
    EXPECT_EQ(height(), 2U);
}

TEST_F(SingleValidatorTest, refuses_to_sign_without_a_journal_unless_told) {
    ASSERT_TRUE(start());
    pass(1000);
    journal_.last_.reset();
    EXPECT_EQ(start().error().name, "consensus.no_safety_journal");
    ASSERT_TRUE(start(true));
    pass(1000);
    EXPECT_EQ(height(), 2U);
    EXPECT_TRUE(journal_.last());
}

TEST_F(SingleValidatorTest, refuses_a_journal_that_is_older_or_too_new) {
    ASSERT_TRUE(start());
    pass(1000);
    const auto old = journal_.last();
    pass(1000);
    pass(1000);
    const auto newest = journal_.last();
    journal_.last_ = old;
    EXPECT_EQ(start().error().name, "consensus.journal_behind");
    journal_.last_ = newest;
    chain_.tips.resize(2);
    chain_.certificates.resize(2);
    EXPECT_EQ(start().error().name, "consensus.journal_ahead");
}

TEST_F(SingleValidatorTest, keeps_timestamps_rising_when_the_wall_clock_goes_back) {
    ASSERT_TRUE(start());
    pass(1000);
    const auto tip = chain_.tips.back();
    // Wall and monotonic time apart: the engine is asked directly.
    SingleValidator engine = std::move(
        *SingleValidator::make({params(), {Hash32{{1}}, 7878}, committee_, tip, journal_.last(), false}, key()));
    EXPECT_EQ(engine.step(event::Started{}, {tip.timestamp_ms - 500, 0}).size(), 1U);
    auto actions = engine.step(event::TimePassed{}, {tip.timestamp_ms - 500, 1000});
    ASSERT_EQ(actions.size(), 1U);
    ASSERT_TRUE(std::holds_alternative<action::Build>(actions[0]));
    EXPECT_EQ(std::get<action::Build>(actions[0]).request.timestamp_ms, tip.timestamp_ms + 1);

    SingleValidator waiting = std::move(
        *SingleValidator::make({params(), {Hash32{{1}}, 7878}, committee_, tip, journal_.last(), false}, key()));
    (void)waiting.step(event::Started{}, {tip.timestamp_ms - 10'000, 0});
    actions = waiting.step(event::TimePassed{}, {tip.timestamp_ms - 10'000, 1000});
    ASSERT_EQ(actions.size(), 1U);
    ASSERT_TRUE(std::holds_alternative<action::WakeAt>(actions[0]));
    EXPECT_EQ(std::get<action::WakeAt>(actions[0]).monotonic_ms, 1000U + 10'000 + 1 - params::kMaxFutureMs);
}

TEST_F(SingleValidatorTest, needs_a_key_that_is_a_quorum_alone) {
    EXPECT_EQ(SingleValidator::make({params(), {}, committee_, {}, {}, false}, key(2)).error().name,
              "consensus.not_a_validator");
    const auto two = *Committee::make({{crypto::derive_public(key(1)), 1}, {crypto::derive_public(key(2)), 1}});
    EXPECT_EQ(SingleValidator::make({params(), {}, two, {}, {}, false}, key(1)).error().name,
              "consensus.no_quorum_alone");
}

TEST_F(SingleValidatorTest, header_rules_name_each_offence) {
    ASSERT_TRUE(start());
    pass(1000);
    pass(1000);
    const auto block = *types::decode_block(chain_.blocks[1]);
    const auto check = [&](auto&& change) {
        types::Block changed = block;
        change(changed);
        return check_header(params(), chain_.tips[1], chain_.certificates[1], committee_, changed);
    };
    EXPECT_TRUE(check([](types::Block&) {}));
    EXPECT_EQ(check([](auto& b) { ++b.header.number; }).error().name, "header.wrong_number");
    EXPECT_EQ(check([](auto& b) { b.header.parent_hash = {}; }).error().name, "header.wrong_parent");
    EXPECT_EQ(check([](auto& b) { ++b.header.consensus.epoch; }).error().name, "header.wrong_epoch");
    EXPECT_EQ(check([](auto& b) { b.header.consensus.view = 1; }).error().name, "header.wrong_view");
    EXPECT_EQ(check([](auto& b) { ++b.header.timestamp; }).error().name, "header.wrong_timestamp");
    EXPECT_EQ(check([&](auto& b) { b.header.consensus.timestamp_ms = chain_.tips[1].timestamp_ms; }).error().name,
              "header.wrong_timestamp");
    EXPECT_EQ(check([](auto& b) { b.header.prev_randao = {}; }).error().name, "header.wrong_beacon");
    EXPECT_EQ(check([](auto& b) { b.header.consensus.vrf_proof = {1}; }).error().name, "header.vrf_proof_set");
    EXPECT_EQ(check([](auto& b) { b.header.consensus.committee_hash = {}; }).error().name, "header.wrong_committee");
    EXPECT_EQ(check([](auto& b) { b.parent_certificate.clear(); }).error().name, "header.wrong_certificate");
    EXPECT_EQ(check([](auto& b) { ++b.header.gas_limit; }).error().name, "header.wrong_gas_limit");
    EXPECT_EQ(check([](auto& b) { b.header.parent_beacon_block_root = Hash32{{1}}; }).error().name,
              "header.wrong_constant");
    EXPECT_TRUE(check_not_future(block.header, block.header.consensus.timestamp_ms - params::kMaxFutureMs));
    EXPECT_FALSE(check_not_future(block.header, block.header.consensus.timestamp_ms - params::kMaxFutureMs - 1));
}

class FileJournalTest : public ::testing::Test {
protected:
    void SetUp() override {
        std::string pattern = ::testing::TempDir() + "quern-journal-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    [[nodiscard]] std::string path() const { return folder_ + "/safety.journal"; }
    std::string folder_;
};

TEST_F(FileJournalTest, keeps_the_record_and_refuses_a_second_block_for_the_view) {
    const SignedProposal first{2, 7, 107, Hash32{{1}}, Bytes{1, 2, 3}};
    {
        auto journal = FileSafetyJournal::open(path());
        ASSERT_TRUE(journal);
        EXPECT_FALSE(journal->last());
        ASSERT_TRUE(journal->store(first));
    }
    auto journal = FileSafetyJournal::open(path());
    ASSERT_TRUE(journal);
    EXPECT_EQ(journal->last(), first);
    SignedProposal other = first;
    other.hash = Hash32{{2}};
    EXPECT_EQ(journal->store(other).error().name, "consensus.would_sign_twice");
    other.view = 6;
    EXPECT_EQ(journal->store(other).error().name, "consensus.would_sign_twice");
    other.epoch = 1, other.view = 99;
    EXPECT_EQ(journal->store(other).error().name, "consensus.would_sign_twice");
    EXPECT_TRUE(journal->store(first));
    other.epoch = 3, other.view = 1;
    EXPECT_TRUE(journal->store(other));
}

TEST_F(FileJournalTest, names_damage) {
    auto journal = FileSafetyJournal::open(path());
    ASSERT_TRUE(journal->store({0, 1, 1, Hash32{{1}}, Bytes(100, 7)}));
    std::filesystem::resize_file(path(), std::filesystem::file_size(path()) - 1);
    EXPECT_EQ(FileSafetyJournal::open(path()).error().name, "consensus.journal_corrupt");
    std::ofstream(path(), std::ios::trunc) << "";
    EXPECT_EQ(FileSafetyJournal::open(path()).error().name, "consensus.journal_corrupt");
}

TEST_F(FileJournalTest, failed_write_changes_nothing) {
    auto journal = FileSafetyJournal::open(folder_ + "/missing/safety.journal");
    ASSERT_TRUE(journal);
    EXPECT_EQ(journal->store({0, 1, 1, Hash32{}, {}}).error().name, "consensus.journal_write_failed");
    EXPECT_FALSE(journal->last());
}

}  // namespace
}  // namespace quern::chain::consensus
