// State machines that strangers' bytes drive: both sides of a handshake over a link that a fuzzer owns, records and the
// joining of messages behind them, blocks put together from short ids.
#include <algorithm>

#include "base/rlp.h"
#include "crypto/hash.h"
#include "fuzz/samples.h"
#include "fuzz/target.h"
#include "p2p/gossip/compact_block.h"
#include "p2p/gossip/compact_proposal.h"
#include "p2p/transport/cookie.h"
#include "p2p/transport/frames.h"
#include "p2p/transport/handshake_flow.h"
#include "p2p/transport/message_assembler.h"

namespace quern::fuzz {
namespace {

namespace transport = p2p::transport;
namespace messages = p2p::messages;

constexpr std::size_t kMaxOnLink = 8'192;  // bytes that the made-up links hold
constexpr std::uint64_t kChain = 7878;
constexpr std::uint64_t kNow = 1'700'000'000;

// Reads a script; zeros once it is over.
class Script {
public:
    explicit Script(BytesView bytes) : bytes_(bytes) {}
    [[nodiscard]] bool ended() const { return at_ >= bytes_.size(); }
    std::uint8_t u8() { return ended() ? std::uint8_t{0} : bytes_[at_++]; }

private:
    BytesView bytes_;
    std::size_t at_ = 0;
};

// What an attacker in the middle does to bytes under way. One of six changes, by `op`.
void tamper(Bytes& link, std::uint8_t op, Script& script) {
    const std::size_t at = link.empty() ? 0 : script.u8() * link.size() / 256;
    const std::uint8_t value = script.u8();
    const auto here = link.begin() + static_cast<std::ptrdiff_t>(at);
    const auto piece_end = here + static_cast<std::ptrdiff_t>(std::min<std::size_t>(value, link.size() - at));
    switch (op % 6) {
        case 0:
            if (!link.empty()) link[at] ^= value;
            break;
        case 1:
            link.erase(here, piece_end);
            break;
        case 2:
            link.insert(here, value);
            break;
        case 3:
            link.resize(at);
            break;
        case 4: {
            const Bytes piece(here, piece_end);
            append(link, piece);
            break;
        }
        default:
            std::rotate(link.begin(), here, link.end());
            break;
    }
    if (link.size() > kMaxOnLink) link.resize(kMaxOnLink);
}

// --- Handshake -------------------------------------------------------------------------------------------------------
transport::Identity identity_of(std::uint8_t number) {
    SeededRng rng(number);
    transport::Identity identity{
        transport::KeyPair::generate(rng), {}, crypto::address20(sample_key(number)), kChain, Bytes(34, 9)};
    transport::NetCert cert;
    cert.chain_id = kChain;
    cert.static_key = identity.static_key.public_key();
    cert.expiry = kNow + 3'600;
    transport::sign(cert, sample_key(number));
    identity.net_cert = transport::encode(cert);
    return identity;
}

// Cookies while the node is under load.
struct LoadedGuard final : transport::CookieGuard {
    explicit LoadedGuard(Rng& rng) : jar(rng) {}
    Challenge challenge(const std::string& host, BytesView message) override {
        if (!loaded) {
            ++let_through;
            return {};
        }
        return {jar.make(host, message, kNow), false};
    }
    bool cookie_fits(const std::string& host, BytesView message, BytesView cookie) override {
        const bool fits = jar.check(host, message, cookie, kNow);
        let_through += fits;
        return fits;
    }
    transport::CookieJar jar;
    bool loaded = false;
    std::size_t let_through = 0;  // times that public-key work was allowed
};

struct Side {
    Side(const transport::Identity& identity, transport::NetCertCache& cache, Rng& rng, LoadedGuard& guard,
         std::optional<Bytes20> expected)
        : flow(expected
                   ? transport::HandshakeFlow({identity, cache, rng, guard}, transport::ConnectionKind::bulk, *expected)
                   : transport::HandshakeFlow({identity, cache, rng, guard}, "192.0.2.1")) {}

    // Feeds what has come as a connection does.
    void receive(Bytes& incoming, Bytes& outgoing) {
        std::size_t used = 0;
        while (!ended && !flow.is_done()) {
            const std::size_t wanted = flow.wanted();
            QUERN_PROPERTY(wanted != 0 && wanted <= transport::kMaxHandshakeBody);
            if (incoming.size() - used < wanted) break;
            auto answer = flow.take(BytesView(incoming).subspan(used, wanted), kNow);
            used += wanted;
            if (answer) {
                answered += !answer->empty();
                append(outgoing, *answer);
                continue;
            }
            ended = true;
            const std::string_view name = answer.error().name;
            QUERN_PROPERTY(name.starts_with("handshake.") || name.starts_with("noise.") ||
                           name.starts_with("net_cert."));
            const auto after = flow.take(Bytes(flow.wanted()), kNow);
            QUERN_PROPERTY(!after && after.error().name == std::string_view("handshake.out_of_turn"));
        }
        incoming.erase(incoming.begin(), incoming.begin() + static_cast<std::ptrdiff_t>(used));
    }

    transport::HandshakeFlow flow;
    std::size_t answered = 0;
    bool ended = false;
};

// Input: operations. 0 and 1 deliver to the responder and the initiator, 2 toggles the responder's load, 3 sends each
// side what it said itself, others tamper with one direction. Taken: both sides finish.
bool run_handshake(BytesView input) {
    static const transport::Identity alice = identity_of(1);
    static const transport::Identity bob = identity_of(2);
    static transport::NetCertCache cache;
    SeededRng rng(3);
    LoadedGuard guard(rng);
    Side initiator(alice, cache, rng, guard, bob.address);
    Side responder(bob, cache, rng, guard, std::nullopt);
    auto first = initiator.flow.start();
    QUERN_ACCEPTED(first);
    Bytes to_responder = *first;
    Bytes to_initiator;
    Script script(input);
    bool touched = false;
    while (!script.ended()) {
        const std::uint8_t op = script.u8();
        if (op == 0) {
            responder.receive(to_responder, to_initiator);
        } else if (op == 1) {
            initiator.receive(to_initiator, to_responder);
        } else if (op == 2) {
            guard.loaded = !guard.loaded;
        } else if (op == 3) {
            std::swap(to_responder, to_initiator);
            touched = true;
        } else {
            tamper(op % 2 == 0 ? to_responder : to_initiator, op / 2, script);
            touched = true;
        }
        if (to_responder.size() + to_initiator.size() > 2 * kMaxOnLink) return false;
    }
    // Before public-key work is allowed, cookies are all that a responder says.
    QUERN_PROPERTY(guard.let_through != 0 || responder.answered <= 1);
    if (!touched) QUERN_PROPERTY(!responder.ended && !initiator.ended);
    if (initiator.flow.is_done()) QUERN_PROPERTY(initiator.flow.peer().address == bob.address);
    if (!responder.flow.is_done()) return false;
    // Nobody has the keys but the two: whoever finished was talked to by the other, about the same session.
    QUERN_PROPERTY(initiator.flow.is_done());
    QUERN_PROPERTY(responder.flow.peer().address == alice.address);
    QUERN_PROPERTY(responder.flow.kind() == transport::ConnectionKind::bulk);
    QUERN_PROPERTY(responder.flow.session_id() == initiator.flow.session_id());
    const auto ours = initiator.flow.split();
    const auto theirs = responder.flow.split();
    QUERN_PROPERTY(ours && theirs && ours->send == theirs->receive && ours->receive == theirs->send);
    return true;
}
std::vector<Seed> seeds_handshake() {
    return {{"plain", Bytes{0, 1, 0}},
            {"under_load", Bytes{2, 0, 1, 0, 1, 0}},
            {"load_comes_and_goes", Bytes{2, 0, 2, 1, 0, 1, 0}},
            {"flipped_bit", Bytes{0, 5, 200, 1, 1, 0}},
            {"reflected", Bytes{3, 1, 0}},
            {"late_garbage", Bytes{0, 1, 0, 8, 10, 77, 0}}};
}

// --- Records ---------------------------------------------------------------------------------------------------------
constexpr std::size_t kRecord = 256;
constexpr std::uint64_t kRekeyAfter = 3;  // so that scripts get past several keys
constexpr std::size_t kBudget = 2'048;
constexpr std::size_t kBody = 700;
constexpr std::uint64_t kUnfinished = 100;

struct Sent {
    transport::Frame frame;
    Bytes payload;
};

// Input: operations. 0 writes a record (type and flag, stream, length), 1 delivers a number of bytes, others tamper.
// Taken: a whole message came through.
bool run_frames(BytesView input) {
    transport::FrameWriter writer(Hash32{{1}}, kRecord, kRekeyAfter);
    transport::FrameReader reader(Hash32{{1}}, kRecord, kRekeyAfter);
    transport::MemoryLedger ledger({kBudget, kBudget / 2, kBudget / 2, kBudget});
    std::size_t whole_messages = 0;
    {
        transport::MessageAssembler assembler(ledger, kUnfinished);
        std::vector<Sent> sent;
        std::size_t got = 0;
        std::map<std::pair<std::uint8_t, std::uint32_t>, Bytes>
            expected;  // unfinished messages as the writer sees them
        Bytes link;
        bool ended = false;
        std::uint64_t now = 0;
        const auto take = [&](const transport::Frame& frame) {
            QUERN_PROPERTY(got < sent.size());
            const Sent& original = sent[got++];
            QUERN_PROPERTY(frame.type == original.frame.type && frame.more == original.frame.more &&
                           frame.stream == original.frame.stream && equal(frame.payload, original.payload));
            // Streams above 200 are skipped.
            auto whole = assembler.add(
                frame,
                [](std::uint8_t, std::uint32_t stream) {
                    return transport::Admission{kBody, stream > 200};
                },
                now);
            QUERN_PROPERTY(ledger.used() <= kBudget && ledger.used_by_strangers() <= kBudget / 2);
            QUERN_PROPERTY(assembler.partial_messages() <= transport::kMaxPartialMessages);
            if (!whole) {
                const std::string_view name = whole.error().name;
                QUERN_PROPERTY(name.starts_with("frame.") || (name.starts_with("memory.") && whole.error().is_busy()));
                ended = true;
                return;
            }
            Bytes& body = expected[{frame.type, frame.stream}];
            append(body, frame.payload);
            QUERN_PROPERTY(body.size() <= kBody);
            QUERN_PROPERTY(whole->has_value() == (!frame.more && frame.stream <= 200));
            if (frame.more) return;
            if (!*whole) {
                expected.erase({frame.type, frame.stream});
                return;
            }
            QUERN_PROPERTY(equal((*whole)->body, body) && (*whole)->type == frame.type);
            expected.erase({frame.type, frame.stream});
            ++whole_messages;
        };
        Script script(input);
        while (!script.ended() && !ended) {
            const std::uint8_t op = script.u8();
            now += 10;
            QUERN_PROPERTY(assembler.check_time(now) || assembler.partial_messages() != 0);
            if (op == 0) {
                const std::uint8_t type = script.u8();
                const std::uint32_t stream = script.u8();
                Bytes payload(script.u8() % (transport::max_payload(kRecord) + 1), type);
                sent.push_back({{static_cast<std::uint8_t>(type & 0x7f), type >= 0x80, stream, {}}, payload});
                writer.write({sent.back().frame.type, sent.back().frame.more, stream, payload}, link);
                if (link.size() > kMaxOnLink) return false;
            } else if (op == 1) {
                std::size_t count = std::min<std::size_t>(std::size_t{script.u8()} * 4 + 1, link.size());
                std::size_t from = 0;
                while (count != 0 && !ended) {
                    const auto space = reader.free_space();
                    QUERN_PROPERTY(!space.empty() && space.size() <= kRecord + transport::kRecordPrefix);
                    const std::size_t piece = std::min(count, space.size());
                    std::copy_n(link.begin() + static_cast<std::ptrdiff_t>(from), piece, space.begin());
                    reader.received(piece);
                    from += piece;
                    count -= piece;
                    while (!ended) {
                        const auto frame = reader.next();
                        if (!frame) {
                            const std::string_view name = frame.error().name;
                            QUERN_PROPERTY(name == "frame.too_long" || name == "frame.too_short" ||
                                           name == "frame.forged");
                            ended = true;
                        } else if (*frame) {
                            take(**frame);
                        } else {
                            break;
                        }
                    }
                }
                link.erase(link.begin(), link.begin() + static_cast<std::ptrdiff_t>(from));
            } else {
                tamper(link, op, script);
            }
        }
    }
    QUERN_PROPERTY(ledger.used() == 0);
    return whole_messages != 0;
}
std::vector<Seed> seeds_frames() {
    Bytes many;
    for (std::uint8_t i = 0; i < 8; ++i) append(many, Bytes{0, 0x21, i, static_cast<std::uint8_t>(i * 20), 1, 60});
    return {{"one", Bytes{0, 0x10, 1, 30, 1, 255}},
            {"three_parts", Bytes{0, 0x90, 1, 200, 0, 0x90, 1, 200, 0, 0x10, 1, 9, 1, 255, 1, 255}},
            {"interleaved", Bytes{0, 0x90, 1, 50, 0, 0xa0, 2, 60, 0, 0x10, 1, 5, 0, 0x20, 2, 6, 1, 255, 1, 255}},
            {"past_several_keys", many},
            {"byte_by_byte", Bytes{0, 0x10, 1, 3, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 255}},
            {"forged_second", Bytes{0, 0x10, 1, 8, 1, 255, 0, 0x10, 2, 8, 6, 200, 1, 1, 255}}};
}

// --- Compact blocks --------------------------------------------------------------------------------------------------
// Input: which of the sample's transactions are here (1), how a peer answers for the others (1), the compact block.
// Taken: a block came of it.
bool run_compact_block(BytesView input) {
    if (input.size() < 2) return false;
    static const chain::types::Block sample = sample_block();
    const auto compact = messages::decode_compact_block(input.subspan(2));
    if (!compact) return false;
    const p2p::gossip::BlockIds ids(chain::types::hash_of(compact->header), compact->salt);
    const auto find = [&](const messages::ShortId& id) -> std::optional<Bytes> {
        for (const auto& transaction : sample.transactions)
            if (ids.of(chain::types::transaction_hash(transaction)) == id) return transaction;
        return std::nullopt;
    };
    p2p::gossip::BlockAssembly assembly(*compact, [&](const p2p::gossip::BlockAssembly::Take& take) {
        for (std::size_t i = 0; i < sample.transactions.size(); ++i)
            if ((unsigned{input[0]} >> i & 1) != 0)
                take(chain::types::transaction_hash(sample.transactions[i]), sample.transactions[i]);
    });
    const std::size_t count = compact->transaction_count();
    const auto missing = assembly.missing();
    QUERN_PROPERTY(missing.size() <= count && std::is_sorted(missing.begin(), missing.end()));
    QUERN_PROPERTY(missing.empty() || missing.back() < count);
    QUERN_PROPERTY(assembly.finish().has_value() == missing.empty());
    if (!missing.empty()) {
        QUERN_PROPERTY(!assembly.fill(std::vector<Bytes>(missing.size() + 1)));
        // Each answered from the sample, in its order; the peer lies about the one that input[1] names.
        std::vector<Bytes> answer;
        for (const auto index : missing) {
            std::size_t id = index;
            for (const auto& each : compact->prefilled) id -= each.index < index;
            answer.push_back(find(compact->ids[id]).value_or(Bytes{1}));
        }
        if (input[1] < answer.size()) answer[input[1]] = Bytes{2};
        if (const auto status = assembly.fill(answer); !status) {
            QUERN_PROPERTY(std::string_view(status.error().name) == "compact_block.wrong_transaction");
            return false;
        }
        QUERN_PROPERTY(input[1] >= answer.size() && assembly.missing().empty());
    }
    const auto made = assembly.finish();
    QUERN_ACCEPTED(made);
    QUERN_PROPERTY(made->certificate == compact->certificate);
    if (const auto block = chain::types::decode_block(made->block)) {
        QUERN_PROPERTY(hash_of(block->header) == assembly.hash());
        QUERN_PROPERTY(block->transactions.size() == count);
    }
    return true;
}
std::vector<Seed> seeds_compact_block() {
    const chain::types::Block block = sample_block();
    std::vector<Seed> seeds;
    const auto add = [&](const char* name, std::uint8_t here, std::uint8_t lie, bool prefill_first) {
        bool first = true;
        Bytes bytes{here, lie};
        append(bytes, messages::encode(p2p::gossip::make_compact(block, Bytes(20, 4), 9, [&](const auto&) {
                   return !std::exchange(first, false) || !prefill_first;
               })));
        seeds.push_back({name, std::move(bytes)});
    };
    add("all_here", 0xff, 0xff, false);
    add("some_missing", 0x15, 0xff, true);
    add("none_here", 0, 0xff, true);
    add("a_lie", 0x15, 1, true);
    return seeds;
}

// --- Proposals as short ids -----------------------------------------------------------------------------------------
// Input: which of the sample's transactions are here (1), how the proposer answers for the others (1), its message.
// Taken: a proposal came of it.
bool run_compact_proposal(BytesView input) {
    if (input.size() < 2) return false;
    static const chain::types::Block sample = sample_block();
    auto compact = messages::decode_compact_proposal(input.subspan(2));
    if (!compact) return false;
    using Assembly = p2p::gossip::ProposalAssembly;
    const auto find = [&](const messages::ShortId& id, std::uint8_t among) -> std::optional<Assembly::Known> {
        for (std::size_t i = 0; i < sample.transactions.size(); ++i) {
            const Hash32 hash = chain::types::transaction_hash(sample.transactions[i]);
            if ((unsigned{among} >> i & 1) != 0 && messages::short_id(hash) == id)
                return Assembly::Known{hash, std::make_shared<const Bytes>(sample.transactions[i])};
        }
        return std::nullopt;
    };
    const messages::CompactProposal said = *compact;
    Assembly assembly(std::move(*compact), [&](const messages::ShortId& id) { return find(id, input[0]); });
    const std::size_t count = assembly.transaction_count();
    QUERN_PROPERTY(count == said.transaction_count());
    const auto missing = assembly.missing();
    QUERN_PROPERTY(std::is_sorted(missing.begin(), missing.end()) && (missing.empty() || missing.back() < count));
    if (!missing.empty()) {
        QUERN_PROPERTY(!assembly.finish() && !assembly.fill(std::vector<Bytes>(missing.size() + 1)));
        std::vector<Bytes> answer;
        for (const auto index : missing) {
            std::size_t place = index;
            for (const auto& each : said.prefilled) place -= each.index < index;
            const auto id = BytesView(said.ids).subspan(place * messages::kProposalIdBytes, messages::ShortId::kSize);
            const auto known = find(messages::ShortId::copy_of(id), 0xff);
            answer.push_back(known ? *known->encoded : Bytes{1});
        }
        if (input[1] < answer.size()) answer[input[1]] = Bytes{2};
        if (const auto status = assembly.fill(std::move(answer)); !status) {
            QUERN_PROPERTY(std::string_view(status.error().name) == "compact_proposal.wrong_transaction");
            QUERN_PROPERTY(assembly.missing() == missing);
            return false;
        }
        QUERN_PROPERTY(assembly.missing().empty());
    }
    const auto made = assembly.finish();
    if (!made) {
        QUERN_PROPERTY(std::string_view(made.error().name) == "compact_proposal.wrong_digest");
        return false;
    }
    QUERN_PROPERTY(crypto::sha256(*made) == said.digest && made->size() <= messages::kMaxConsensusMessage + 1'000);
    return true;
}
std::vector<Seed> seeds_compact_proposal() {
    rlp::Writer items;
    for (const auto& transaction : sample_block().transactions) {
        if (transaction[0] >= 0xc0)
            items.raw(transaction);
        else
            items.bytes(transaction);
    }
    Bytes whole(30, 1);
    append(whole, std::move(items).finish());
    const std::size_t end = whole.size();
    append(whole, Bytes(20, 2));
    const auto cut = p2p::gossip::cut_proposal(std::make_shared<const Bytes>(whole), 30, end);
    QUERN_ACCEPTED(cut);
    std::vector<Seed> seeds;
    const auto add = [&](const char* name, std::uint8_t here, std::uint8_t lie, bool prefill_first) {
        bool first = true;
        Bytes bytes{here, lie};
        append(bytes, messages::encode(p2p::gossip::make_compact(
                          *cut, [&](const auto&) { return !std::exchange(first, false) || !prefill_first; })));
        seeds.push_back({name, std::move(bytes)});
    };
    add("all_here", 0xff, 0xff, false);
    add("some_missing", 0x15, 0xff, true);
    add("none_here", 0, 0xff, true);
    add("a_lie", 0x15, 1, true);
    return seeds;
}

}  // namespace

std::span<const Target> transport_targets() {
    static constexpr Target kTargets[] = {
        {"handshake", run_handshake, seeds_handshake, 120},
        {"frames", run_frames, seeds_frames, 400},
        {"compact_block", run_compact_block, seeds_compact_block},
        {"compact_proposal", run_compact_proposal, seeds_compact_proposal},
    };
    return kTargets;
}

}  // namespace quern::fuzz
