#include "p2p/network.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/fs.h"
#include "p2p/address_book.h"
#include "raw_peer.h"
#include "test_node.h"

namespace quern::p2p {
namespace {

using namespace testing;

TEST(Network, parses_static_peers) {
    const auto peer = parse_static_peer("0x00000000000000000000000000000000000000aa@node.example:7900");
    ASSERT_TRUE(peer);
    EXPECT_EQ(peer->endpoint, (messages::Endpoint{"node.example", 7900}));
    EXPECT_EQ(parse_static_peer("00000000000000000000000000000000000000aa@[::1]:1")->endpoint.host, "::1");
    for (const std::string_view bad :
         {"", "@:1", "0x12@h:1", "00000000000000000000000000000000000000aa@h:0",
          "00000000000000000000000000000000000000aa@h:65536", "00000000000000000000000000000000000000aa@::1:1",
          "00000000000000000000000000000000000000aa@h h:1", "00000000000000000000000000000000000000aa@h:1x",
          "00000000000000000000000000000000000000aa@h:", "00000000000000000000000000000000000000aa@h:000001",
          "00000000000000000000000000000000000000aa@[hh:1", "00000000000000000000000000000000000000aa", "h:1",
          "h:1@00000000000000000000000000000000000000aa"})
        EXPECT_EQ(parse_static_peer(bad).error().name, "p2p.bad_peer") << bad;
}

TEST(Network, refuses_to_advertise_what_is_no_endpoint) {
    RecordingHandler handler;
    NetworkOptions options;
    options.listen = false;
    for (const messages::Endpoint& bad : std::vector<messages::Endpoint>{{"", 1}, {"two words", 1}, {"1.2.3.4", 0}}) {
        options.advertised = {bad};
        const auto network = Network::start(options, key_of(1), handler);
        ASSERT_FALSE(network) << bad.host;
        EXPECT_EQ(network.error().name, "p2p.bad_options");
    }
    options.advertised = {{"1.2.3.4", 7900}};
    EXPECT_TRUE(Network::start(options, key_of(1), handler));
}

TEST(Network, refuses_to_start_where_it_cannot_listen_or_with_a_name_too_long) {
    RecordingHandler handler;
    const auto refusal = [&](const std::function<void(NetworkOptions&)>& change) {
        NetworkOptions options;
        options.listen_host = "127.0.0.1";
        change(options);
        const auto network = Network::start(options, key_of(2), handler);
        return network ? std::string("started") : std::string(network.error().name);
    };
    TestNode other(1);
    EXPECT_EQ(refusal([](NetworkOptions& options) { options.listen_host = "a host"; }), "p2p.cannot_listen");
    EXPECT_EQ(refusal([&](NetworkOptions& options) { options.port = other.network->port(); }), "p2p.cannot_listen");
    EXPECT_EQ(refusal([&](NetworkOptions& options) {
                  options.port = other.network->port();
                  options.listen = false;
              }),
              "started");
    EXPECT_EQ(refusal([](NetworkOptions& options) { options.agent = std::string(messages::kMaxAgent, 'a'); }),
              "started");
    EXPECT_EQ(refusal([](NetworkOptions& options) { options.agent = std::string(messages::kMaxAgent + 1, 'a'); }),
              "p2p.bad_options");
}

TEST(Network, dials_the_peers_of_the_last_run_and_counts_the_bytes_both_ways) {
    TestNode a(1);
    const std::string file = ::testing::TempDir() + "quern_anchors_" + std::to_string(::getpid());
    OsRng rng;
    const Bytes known = AddressBook(7878, rng, true).save({{a.me, a.as_peer().endpoint}});
    ASSERT_TRUE(fs::write_file_atomic(file, known));
    {
        TestNode b(2, {}, [&](NetworkOptions& options) { options.peers_file = file; });
        ASSERT_TRUE(eventually([&] { return a.has_peers(1) && b.has_peers(1); }));
        EXPECT_FALSE(b.network->status().peers[0].fixed);
        constexpr std::size_t kBytes = 3U << 20;
        b.network->send_consensus_to(a.me, Bytes(kBytes, 1));
        const auto in_range = [](std::uint64_t bytes) { return bytes >= kBytes && bytes <= 2 * kBytes; };
        EXPECT_TRUE(eventually([&] {
            const auto there = a.network->status().peers;
            const auto here = b.network->status().peers;
            return there.size() == 1 && here.size() == 1 && in_range(there[0].bytes_in) && in_range(here[0].bytes_out);
        }));
    }
    // And writes them down for the next one.
    AddressBook book(7878, rng, true);
    const auto written = fs::read_file(file, 1U << 20);
    ASSERT_TRUE(written);
    EXPECT_EQ(book.load(*written, 1), (std::vector<AddressBook::Candidate>{{a.me, a.as_peer().endpoint}}));
    std::filesystem::remove(file);
}

TEST(Network, fetches_nothing_without_a_store) {
    TestNode node(1);
    std::atomic<bool> over{false};
    std::string name;
    node.network->fetch_content(Hash32{{7}}, [&](Status status) {
        name = status ? "ok" : std::string(status.error().name);
        over = true;
    });
    ASSERT_TRUE(eventually([&] { return over.load(); }));
    EXPECT_EQ(name, "network.no_store");
}

TEST(Network, is_at_rest_until_it_runs_and_does_then_what_it_was_told) {
    TestNode a(1);
    RecordingHandler handler;
    NetworkOptions options;
    options.chain_id = 7878;
    options.local_network = true;
    options.genesis_hash = Hash32{{1, 2, 3}};
    options.listen_host = "127.0.0.1";
    auto network = Network::make(options, key_of(2));
    ASSERT_TRUE(network);
    EXPECT_NE((*network)->port(), 0);
    (*network)->set_status({7, {}, 0, 0, 0});
    (*network)->add_static_peer(a.as_peer());
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_TRUE(a.has_peers(0));
    (*network)->run(handler);
    ASSERT_TRUE(eventually([&] { return a.has_peers(1) && (*network)->peer_count() == 1; }));
    EXPECT_EQ(a.network->status().peers[0].status.finalized_number, 7U);
    (*network)->stop();
    (*network)->send_consensus_to(a.me, Bytes{1});
    ASSERT_TRUE(eventually([&] { return a.has_peers(0); }));
    EXPECT_EQ(a.handler.envelope_count(), 0U);
    auto never_run = Network::make(options, key_of(3));
    ASSERT_TRUE(never_run);
    (*never_run)->stop();
}

TEST(Network, two_nodes_meet_and_carry_consensus_both_ways) {
    TestNode a(1);
    TestNode b(2, {a.as_peer()});
    ASSERT_TRUE(eventually([&] { return a.has_peers(1) && b.has_peers(1); }));
    ASSERT_TRUE(eventually([&] {
        const auto status = b.network->status();
        return status.peers.size() == 1 && status.peers[0].has_bulk && status.peers[0].rtt_us != 0;
    }));
    const auto info = b.network->status().peers[0];
    EXPECT_EQ(info.address, a.me);
    EXPECT_TRUE(info.outbound);
    EXPECT_TRUE(info.fixed);
    EXPECT_EQ(info.agent, "node-1");
    a.network->send_consensus(Bytes{1, 2, 3});
    b.network->send_consensus_to(a.me, Bytes(3 << 20, 9));  // a proposal of many records
    ASSERT_TRUE(eventually([&] { return a.handler.envelope_count() == 1 && b.handler.envelope_count() == 1; }));
    EXPECT_EQ(b.handler.envelopes[0].first, a.me);
    EXPECT_EQ(b.handler.envelopes[0].second, (Bytes{1, 2, 3}));
    EXPECT_EQ(a.handler.envelopes[0].second, Bytes(3 << 20, 9));
}

TEST(Network, writes_down_whom_it_knows_when_it_stops) {
    const std::string file = ::testing::TempDir() + "quern_peers_" + std::to_string(::getpid());
    std::filesystem::remove(file);
    TestNode other(1);
    {
        TestNode node(2, {other.as_peer()}, [&](NetworkOptions& options) { options.peers_file = file; });
        ASSERT_TRUE(eventually([&] { return node.has_peers(1); }));
        EXPECT_FALSE(std::filesystem::exists(file)) << "minutes later at the earliest";
    }
    EXPECT_TRUE(std::filesystem::exists(file));
    std::filesystem::remove(file);
}

TEST(Network, says_who_has_joined) {
    TestNode a(1);
    TestNode b(2, {a.as_peer()});
    const auto joined = [](const TestNode& node) {
        const std::lock_guard lock(node.handler.mutex);
        return node.handler.joined;
    };
    EXPECT_TRUE(eventually([&] { return joined(a).size() == 1 && joined(b).size() == 1; }));
    EXPECT_EQ(joined(a), std::vector{address_of(2)});
    EXPECT_EQ(joined(b), std::vector{address_of(1)});
}

TEST(Network, requests_are_answered_refused_and_timed_out) {
    TestNode a(1);
    a.handler.chain_length = 3;
    TestNode b(2, {a.as_peer()});
    ASSERT_TRUE(eventually([&] { return a.has_peers(1) && b.has_peers(1); }));
    std::mutex mutex;
    std::map<std::string, std::string> results;
    const auto note = [&](const std::string& what, std::string result) {
        const std::lock_guard lock(mutex);
        results[what] = std::move(result);
    };
    const auto hash = chain::types::hash_of(block_of(2).header);
    b.network->request_block(a.me, {hash}, 5000, [&](Expected<messages::BlockAnswer> answer) {
        note("block", answer ? (answer->block == chain::types::encode(block_of(2)) ? "right" : "wrong")
                             : answer.error().to_string());
    });
    b.network->request_block(a.me, {Hash32{}}, 5000, [&](Expected<messages::BlockAnswer> answer) {
        note("unknown", answer ? "?" : answer.error().to_string());
        EXPECT_TRUE(answer || why_no_answer(answer.error()) == NoAnswer::refused);
    });
    b.network->request_certificate(a.me, {3, 1, 7}, 5000, [&](Expected<messages::CertificateAnswer> answer) {
        note("certificate", answer ? std::to_string(answer->certificates.at(0).size()) : answer.error().to_string());
    });
    b.network->request_certificate(a.me, {3, 1, 8}, 5000, [&](Expected<messages::CertificateAnswer> answer) {
        note("dropped", answer ? "?" : answer.error().to_string());
    });
    b.network->request_range(a.me, {2, 10, 1 << 20}, 5000, [&](Expected<messages::Range> answer) {
        note("range", answer ? std::to_string(answer->blocks.size()) : answer.error().to_string());
    });
    b.network->request_block(address_of(9), {hash}, 5000, [&](Expected<messages::BlockAnswer> answer) {
        note("stranger", answer ? "?" : std::string(answer.error().name));
        EXPECT_TRUE(answer || why_no_answer(answer.error()) == NoAnswer::late);
    });
    ASSERT_TRUE(eventually([&] {
        const std::lock_guard lock(mutex);
        return results.size() == 6;
    }));
    EXPECT_EQ(results["block"], "right");
    EXPECT_EQ(results["unknown"], "network.refused: not_found");
    EXPECT_EQ(results["certificate"], "100");
    EXPECT_EQ(results["dropped"], "network.refused: not_found");
    EXPECT_EQ(results["range"], "2");
    EXPECT_EQ(results["stranger"], "network.not_connected");
    // Its addresses, which are asked for first; a block; a certificate; a range. No refusal.
    EXPECT_TRUE(eventually([&] {
        const auto peers = b.network->status().peers;
        return peers.size() == 1 && peers[0].answers == 4;
    }));
    EXPECT_EQ(why_no_answer(busy("network.refused", "busy").value()), NoAnswer::busy);
    EXPECT_EQ(why_no_answer(busy("network.timeout").value()), NoAnswer::late);
    EXPECT_EQ(why_no_answer(fail("rlp.truncated").value()), NoAnswer::refused);
}

TEST(Network, refuses_other_keys_genesis_and_expired_certificates) {
    TestNode a(1);
    TestNode wrong_key(2, {{address_of(77), a.as_peer().endpoint}});
    TestNode wrong_genesis(3, {a.as_peer()}, [](NetworkOptions& options) { options.genesis_hash.data[0] ^= 1; });
    TestNode wrong_chain(4, {a.as_peer()}, [](NetworkOptions& options) { options.chain_id = 1; });
    TestNode expired(5, {a.as_peer()}, [](NetworkOptions& options) { options.certificate_seconds = 0; });
    TestNode self(1, {a.as_peer()});
    // Each of the four tries at least once; a fifth, right one still gets in.
    ASSERT_TRUE(eventually([&] { return a.network->status().handshakes_failed >= 4; }));
    ASSERT_TRUE(eventually([&] { return wrong_key.network->status().handshakes_failed >= 1; }));
    TestNode right(6, {a.as_peer()});
    ASSERT_TRUE(eventually([&] { return right.has_peers(1); }));
    EXPECT_EQ(wrong_key.network->peer_count(), 0U);
    EXPECT_EQ(wrong_genesis.network->peer_count(), 0U);
    EXPECT_EQ(wrong_chain.network->peer_count(), 0U);
    EXPECT_EQ(expired.network->peer_count(), 0U);
    EXPECT_EQ(self.network->peer_count(), 0U);
    EXPECT_TRUE(eventually([&] { return a.has_peers(1); }));
}

TEST(Network, nodes_that_dial_each_other_keep_one_connection) {
    TestNode a(1);
    TestNode b(2);
    a.network->add_static_peer(b.as_peer());
    b.network->add_static_peer(a.as_peer());
    ASSERT_TRUE(eventually([&] { return a.has_peers(1) && b.has_peers(1); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    EXPECT_TRUE(a.has_peers(1) && b.has_peers(1));
    EXPECT_NE(a.network->status().peers[0].outbound, b.network->status().peers[0].outbound);
}

TEST(Network, five_nodes_gossip_transactions_along_a_line) {
    std::vector<std::unique_ptr<TestNode>> nodes;
    for (std::uint64_t i = 0; i < 5; ++i)
        nodes.push_back(std::make_unique<TestNode>(
            i + 1, i == 0 ? std::vector<StaticPeer>{} : std::vector<StaticPeer>{nodes.back()->as_peer()}));
    ASSERT_TRUE(eventually([&] { return nodes[0]->has_peers(1) && nodes[2]->has_peers(2) && nodes[4]->has_peers(1); }));
    for (std::uint8_t i = 0; i < 200; ++i) {
        const Bytes transaction(100 + i, i);
        const Hash32 hash = chain::types::transaction_hash(transaction);
        {
            const std::lock_guard lock(nodes[0]->handler.mutex);
            nodes[0]->handler.pool[messages::short_id(hash)] = transaction;
        }
        nodes[0]->network->announce_transaction(hash, transaction);
    }
    EXPECT_TRUE(eventually([&] { return nodes[4]->handler.pool_size() == 200; }));
    EXPECT_EQ(nodes[4]->handler.pool, nodes[0]->handler.pool);
}

TEST(Network, peer_exchange_spreads_signed_records) {
    TestNode hub(1, {}, [](NetworkOptions& options) { options.max_outbound = 0; });
    std::uint16_t free_port = 0;
    {
        TestNode probe(50);
        free_port = probe.network->port();
    }
    TestNode a(2, {hub.as_peer()}, [&](NetworkOptions& options) {
        options.port = free_port;
        options.advertised = {{"127.0.0.1", free_port}};
    });
    ASSERT_TRUE(a.network);
    ASSERT_TRUE(eventually([&] { return hub.network->status().known_addresses == 1; }));
    // It knows the hub alone, hears of the other there and connects to it.
    TestNode b(3, {hub.as_peer()});
    EXPECT_TRUE(eventually([&] {
        for (const auto& peer : b.network->status().peers)
            if (peer.address == a.me) return true;
        return false;
    }));
}

TEST(Network, compact_blocks_fetch_only_what_is_missing) {
    TestNode a(1);
    TestNode b(2, {a.as_peer()});
    ASSERT_TRUE(eventually([&] { return a.has_peers(1) && b.has_peers(1); }));
    std::vector<Bytes> transactions;
    for (std::uint8_t i = 0; i < 30; ++i) {
        transactions.emplace_back(500, i);
        const Hash32 hash = chain::types::transaction_hash(transactions.back());
        a.network->announce_transaction(hash, transactions.back());
    }
    ASSERT_TRUE(eventually([&] { return b.handler.pool_size() == 30; }));
    auto block = block_of(5, transactions);
    {
        const std::lock_guard lock(a.handler.mutex);
        a.handler.last_block = block;
    }
    a.network->announce_block(std::make_shared<const chain::types::Block>(block), Bytes(10, 3));
    ASSERT_TRUE(eventually([&] {
        const std::lock_guard lock(b.handler.mutex);
        return b.handler.blocks.size() == 1;
    }));
    EXPECT_EQ(b.handler.blocks[0].block, chain::types::encode(block));
    EXPECT_EQ(b.handler.blocks[0].certificate, Bytes(10, 3));
}

TEST(Network, a_transaction_that_was_told_just_before_its_block_travels_once) {
    TestNode node(1);
    RawPeer raw(node.network->port());
    ASSERT_TRUE(raw.shake_hands(key_of(8), 7878, Hash32{{1, 2, 3}}) && raw.say_hello());
    ASSERT_TRUE(eventually([&] { return node.has_peers(1); }));
    const Bytes transaction(500, 7);
    node.network->announce_transaction(chain::types::transaction_hash(transaction), transaction);
    node.network->announce_block(std::make_shared<const chain::types::Block>(block_of(5, {transaction})), Bytes(10, 3));
    const auto record = raw.next_message(messages::Type::compact_block);
    ASSERT_TRUE(record);
    const auto compact = messages::decode_compact_block(record->payload);
    ASSERT_TRUE(compact);
    EXPECT_TRUE(compact->prefilled.empty());
    EXPECT_EQ(compact->ids.size(), 1U);
}

TEST(Network, a_block_whose_body_is_not_the_headers_is_fetched_whole_and_costs_little) {
    TestNode a(1);
    TestNode b(2, {a.as_peer()});
    ASSERT_TRUE(eventually([&] { return a.has_peers(1) && b.has_peers(1); }));
    a.handler.chain_length = 3;
    b.handler.body_fits = false;  // as with two transactions of one id
    a.network->announce_block(std::make_shared<const chain::types::Block>(block_of(2)), Bytes(10, 3));
    ASSERT_TRUE(eventually([&] {
        const std::lock_guard lock(b.handler.mutex);
        return b.handler.blocks.size() == 1;
    }));
    EXPECT_EQ(b.handler.blocks[0].block, chain::types::encode(block_of(2)));
    EXPECT_EQ(b.handler.blocks[0].certificate, Bytes(8, 1));  // get_block's, not the compact block's
    EXPECT_LE(b.network->status().peers.at(0).score, 2);      // told of before or after
}

TEST(Network, dials_again_who_did_not_listen_at_first) {
    std::uint16_t port = 0;
    {
        const TestNode early(2);
        port = early.network->port();
    }
    TestNode a(1, {{address_of(2), {"127.0.0.1", port}}});
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // for a first, vain attempt
    EXPECT_TRUE(a.has_peers(0));
    TestNode b(2, {}, [&](NetworkOptions& options) { options.port = port; });
    ASSERT_TRUE(b.network);
    EXPECT_TRUE(eventually([&] { return a.has_peers(1); }));
}

TEST(Network, returns_after_the_other_side_restarted) {
    auto a = std::make_unique<TestNode>(1);
    const StaticPeer peer = a->as_peer();
    TestNode b(2, {peer});
    ASSERT_TRUE(eventually([&] { return b.has_peers(1); }));
    a.reset();
    ASSERT_TRUE(eventually([&] { return b.has_peers(0); }));
    a = std::make_unique<TestNode>(1, std::vector<StaticPeer>{},
                                   [&](NetworkOptions& options) { options.port = peer.endpoint.port; });
    ASSERT_TRUE(a->network);
    EXPECT_TRUE(eventually([&] { return b.has_peers(1) && a->has_peers(1); }));
}

TEST(Network, reported_offences_add_up_to_leaving) {
    TestNode a(1);
    TestNode b(2, {}, [&](NetworkOptions&) {});
    b.network->add_static_peer(a.as_peer());
    ASSERT_TRUE(eventually([&] { return a.has_peers(1); }));
    a.network->report(b.me, Offence::invalid_transaction);
    ASSERT_TRUE(eventually([&] {
        const auto status = a.network->status();
        return status.peers.size() == 1 && status.peers[0].score == rule_of(Offence::invalid_transaction).points;
    }));
    a.network->report(b.me, Offence::invalid_block);
    ASSERT_TRUE(eventually([&] { return a.has_peers(0); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    EXPECT_TRUE(a.has_peers(0));
}

}  // namespace
}  // namespace quern::p2p
