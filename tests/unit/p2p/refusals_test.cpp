// What a stranger sends and is refused for, by name; what was there stays as it was.
#include <gtest/gtest.h>

#include "p2p/content_exchange/fetch_plan.h"
#include "p2p/messages/peer_record.h"
#include "p2p/transport/cipher.h"
#include "support/rlp_edit.h"

namespace quern::p2p {
namespace {

TEST(Refusals, of_a_peer_record_name_the_field) {
    SeededRng rng(1);
    const auto key = crypto::PrivateKey::generate(rng);
    messages::PeerRecord record{7878, crypto::address20(key), 5, 2'000'000'000, 0, {{"1.2.3.4", 7876}}, {}};
    messages::sign(record, key);
    const Bytes good = messages::encode(record);
    ASSERT_TRUE(messages::decode_peer_record(good));
    const auto error_of = [&](std::vector<std::size_t> path, BytesView item) {
        const auto decoded = messages::decode_peer_record(with_item(good, std::move(path), item));
        return decoded ? std::string("taken") : std::string(decoded.error().name);
    };
    EXPECT_EQ(error_of({0}, rlp_integer(Uint256(99))), "peer_record.bad_version");
    EXPECT_EQ(error_of({6, 0, 1}, rlp_integer(Uint256(0))), "peer_record.bad_port");
    EXPECT_EQ(error_of({6, 0, 1}, rlp_integer(Uint256(65'536))), "rlp.integer_overflow");
    EXPECT_EQ(error_of({6, 0, 0}, rlp_bytes(as_bytes("a host"))), "peer_record.bad_host");
    EXPECT_EQ(error_of({7}, rlp_integer(Uint256(2))), "peer_record.bad_parity");
}

TEST(Refusals, of_a_record_on_the_line_cost_its_stream) {
    using transport::CipherState;
    Hash32 key;
    key.data[0] = 7;
    CipherState seal(CipherState::Direction::seal, key);
    const Bytes plain{1, 2, 3};
    Bytes sealed;
    seal.seal({}, plain, sealed);
    {
        Bytes cut(sealed.begin(), sealed.begin() + 15);
        CipherState open(CipherState::Direction::open, key);
        EXPECT_EQ(open.open({}, cut).error().name, "cipher.too_short");
    }
    for (std::size_t at = 0; at < sealed.size(); ++at) {
        Bytes forged = sealed;
        forged[at] ^= 1;
        CipherState open(CipherState::Direction::open, key);
        const auto refused = open.open({}, forged);
        ASSERT_FALSE(refused) << at;
        EXPECT_EQ(refused.error().name, "cipher.forged");
    }
    CipherState open(CipherState::Direction::open, key);
    EXPECT_EQ(to_bytes(*open.open({}, sealed)), plain);
}

Bytes20 peer(std::uint16_t number) {
    Bytes20 out;
    out.data[18] = static_cast<std::uint8_t>(number >> 8);
    out.data[19] = static_cast<std::uint8_t>(number);
    return out;
}

TEST(Refusals, of_contents_cost_the_one_who_lied) {
    using content_exchange::FetchPlan;
    Bytes bytes(3 * crypto::kContentLeafBytes);
    SeededRng rng(3);
    rng.fill(bytes);
    crypto::ContentHasher hasher;
    hasher.update(bytes);
    const Hash32 id = hasher.finish();
    const messages::ContentHolding whole{id, bytes.size(), {}};

    FetchPlan plan(id, rng);
    ASSERT_TRUE(plan.add_source(peer(1), whole, 0));
    // Before anything was asked, or of another: nobody's fault, since the request may have been given to another.
    const auto early = plan.received_leaves(peer(1), {id, 0, bytes}, 0);
    EXPECT_EQ(early.error().name, "content.unasked");
    EXPECT_EQ(early.error().kind, ErrorKind::busy);
    const auto asks = plan.next_asks(0);
    ASSERT_FALSE(asks.empty());
    ASSERT_TRUE(asks.front().hashes);
    EXPECT_EQ(plan.received_hashes(peer(2), {id, 0, Bytes(96)}).error().name, "content.unasked");
    // Asked, and of a wrong length: it is not used again.
    const auto wrong = plan.received_hashes(peer(1), {id, 0, Bytes(95)});
    EXPECT_EQ(wrong.error().name, "content.wrong_length");
    EXPECT_EQ(wrong.error().kind, ErrorKind::input);
    EXPECT_EQ(plan.add_source(peer(1), whole, 1'000'000).error().name, "content.source_waits");
    EXPECT_EQ(plan.manifest(), nullptr);

    FetchPlan known(id, rng);
    known.set_manifest(std::make_shared<content::Manifest>(content::Manifest{bytes.size(), hasher.leaves()}));
    const auto other = known.add_source(peer(1), {id, bytes.size() + 1, {}}, 0);
    EXPECT_EQ(other.error().name, "content.wrong_size");
    EXPECT_EQ(other.error().kind, ErrorKind::input);
    for (std::uint16_t i = 0; i < content_exchange::kMaxSources; ++i) ASSERT_TRUE(known.add_source(peer(i), whole, 0));
    const auto full = known.add_source(peer(9'999), whole, 0);
    EXPECT_EQ(full.error().name, "content.too_many_sources");
    EXPECT_EQ(full.error().kind, ErrorKind::busy);
    EXPECT_EQ(known.sources(), content_exchange::kMaxSources);
    EXPECT_TRUE(known.add_source(peer(1), whole, 0));  // one that is known says it again
}

}  // namespace
}  // namespace quern::p2p
