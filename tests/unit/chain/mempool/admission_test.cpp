// Many transactions at once: the same answers as one by one, for less.
#include "chain/mempool/admission.h"

#include "pool_fixture.h"

namespace quern::chain::mempool {
namespace {

// Counts reads of accounts.
class CountingState final : public state::StateReader {
public:
    explicit CountingState(const state::StateReader& base) : base_(base) {}
    std::optional<state::Account> account(const types::Address& address) const override {
        ++reads_[address];
        return base_.account(address);
    }
    Bytes code(const Hash32& hash) const override { return base_.code(hash); }
    Hash32 storage(const types::Address& address, const Hash32& slot) const override {
        return base_.storage(address, slot);
    }
    std::optional<Bytes> native(BytesView key) const override { return base_.native(key); }
    std::vector<std::pair<Bytes, Bytes>> native_range(BytesView prefix, BytesView start,
                                                      std::size_t limit) const override {
        return base_.native_range(prefix, start, limit);
    }
    [[nodiscard]] const std::map<types::Address, std::size_t>& reads() const { return reads_; }

private:
    const state::StateReader& base_;
    mutable std::map<types::Address, std::size_t> reads_;
};

class AdmissionTest : public PoolFixture {
protected:
    static Bytes encoded(std::uint8_t seed, const types::Transaction& tx) { return signed_by(seed, tx).encoded; }
    ThreadPool threads_{2};
};

TEST_F(AdmissionTest, answers_each_in_its_place_and_reads_each_account_once) {
    Pool pool(params_);
    std::vector<Bytes> batch;
    for (std::uint64_t nonce = 0; nonce < 10; ++nonce) batch.push_back(encoded(1, transfer(nonce, 1)));
    batch.push_back({0x02, 0xff});                     // no transaction
    batch.push_back(encoded(2, transfer(0, 1)));       //
    batch.push_back(encoded(2, transfer(0, 1)));       // once more
    batch.push_back(encoded(2, transfer(0, 1, 101)));  // underpriced
    auto other_chain = transfer(0, 1);
    other_chain.chain_id = 1;
    batch.push_back(encoded(3, other_chain));
    auto high_s = signed_by(4, transfer(0, 1)).tx;
    high_s.s = crypto::kCurveOrder - high_s.s;
    high_s.y_parity ^= 1;
    batch.push_back(types::encode(high_s));
    batch.push_back({0x03, 0xc0});
    batch.push_back(encoded(5, transfer(3, 1)));  // parked

    const CountingState counting(state_);
    auto arrivals = recover_all(pool, &threads_, batch, source(1));
    ASSERT_EQ(arrivals.size(), batch.size());
    ASSERT_TRUE(admit(pool, arrivals, counting, 0));
    for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(arrivals[i].result.name, "ok");
    EXPECT_EQ(arrivals[10].result.band, exec::Band::malformed);
    EXPECT_EQ(arrivals[11].result.name, "ok");
    EXPECT_EQ(arrivals[12].result.name, exec::kAlreadyKnown.text);
    EXPECT_EQ(arrivals[13].result.name, exec::kReplacementUnderpriced.text);
    EXPECT_EQ(arrivals[14].result.name, exec::kWrongChain.text);
    EXPECT_EQ(arrivals[15].result.name, exec::kInvalidSender.text);
    EXPECT_EQ(arrivals[16].result.name, exec::kTypeNotSupported.text);
    EXPECT_EQ(arrivals[17].result.name, "ok");
    for (std::size_t i = 0; i < batch.size(); ++i) {
        EXPECT_EQ(arrivals[i].hash, types::transaction_hash(batch[i]));
        EXPECT_EQ(arrivals[i].pooled != nullptr, arrivals[i].result.band == exec::Band::ok);
    }
    for (const auto& [address, reads] : counting.reads()) EXPECT_EQ(reads, 1U);
    EXPECT_EQ(pool.status().executable, 11U);
    EXPECT_EQ(pool.parked(), 1U);
    EXPECT_EQ(pool.find(arrivals[17].hash)->source, source(1));
    EXPECT_TRUE(pool.check());
}

TEST_F(AdmissionTest, what_waits_already_is_not_recovered_again) {
    Pool pool(params_);
    const std::vector<Bytes> batch{encoded(1, transfer(0, 1))};
    auto first = recover_all(pool, nullptr, batch, {});
    ASSERT_TRUE(admit(pool, first, state_, 0));
    const auto hits = pool.senders().hits();
    auto again = recover_all(pool, nullptr, batch, {});
    EXPECT_EQ(again[0].result.name, exec::kAlreadyKnown.text);
    EXPECT_EQ(pool.senders().hits(), hits) << "nor looked up";
    ASSERT_TRUE(admit(pool, again, state_, 0));
    EXPECT_EQ(again[0].result.name, exec::kAlreadyKnown.text);
}

TEST_F(AdmissionTest, a_batch_on_an_outdated_state_changes_nothing_and_can_be_tried_again) {
    Pool pool(params_);
    pool.on_block({}, state_, 3);
    const std::vector<Bytes> batch{encoded(1, transfer(0, 1)), {0x02}};
    auto arrivals = recover_all(pool, nullptr, batch, {});
    EXPECT_FALSE(admit(pool, arrivals, state_, 2));
    EXPECT_EQ(pool.status().transactions, 0U);
    ASSERT_TRUE(admit(pool, arrivals, state_, 3));
    EXPECT_EQ(arrivals[0].result.name, "ok");
    EXPECT_EQ(arrivals[1].result.band, exec::Band::malformed);
}

TEST_F(AdmissionTest, a_journals_senders_are_believed) {
    Pool pool(params_);
    // A signature that gives nobody: only the journal says whose it is.
    auto transaction = as_of(1, transfer(0, 1));
    fund_number(1, Uint256(100) * params::kGrainsPerQrn);
    const std::vector<JournalEntry> entries{{transaction.sender, transaction.encoded}, {transaction.sender, {0x02}}};
    auto arrivals = recover_all(threads_, entries);
    ASSERT_TRUE(admit(pool, arrivals, state_, 0));
    EXPECT_EQ(arrivals[0].result.name, "ok");
    EXPECT_EQ(arrivals[1].result.band, exec::Band::malformed);
    EXPECT_EQ(pool.find(transaction.hash)->transaction.sender, transaction.sender);
}

}  // namespace
}  // namespace quern::chain::mempool
