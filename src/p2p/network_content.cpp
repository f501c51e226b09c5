// Contents: drives the pure plans with requests and files.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/post.hpp>

#include "base/fs.h"
#include "p2p/network_impl.h"
#include "p2p/transport/host_group.h"

namespace quern::p2p {
namespace {

using content_exchange::FetchPlan;
using messages::RefusalCode;

constexpr std::size_t kReadsAtOnce = 2;  // chunks for peers that the disk thread has before it
constexpr std::size_t kMaxWrites = 32;   // chunks of one content on their way to disk

Status write_at(const std::string& path, std::uint64_t offset, BytesView bytes) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0) return fault("content.write_failed", path);
    while (!bytes.empty()) {
        const ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (written <= 0) {
            ::close(file);
            return fault("content.write_failed", path);
        }
        offset += static_cast<std::uint64_t>(written);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    ::close(file);
    return {};
}

Expected<Bytes> read_at(const std::string& path, std::uint64_t offset, std::size_t size) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return fail("content.not_found", path);
    Bytes bytes(size);
    std::size_t done = 0;
    while (done < size) {
        const ssize_t got = ::pread(file, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
        if (got <= 0) break;
        done += static_cast<std::size_t>(got);
    }
    ::close(file);
    if (done != size) return fail("content.not_found", path);
    return bytes;
}

}  // namespace

// --- Contents: fetching
// -----------------------------------------------------------------------------------------------

// What an earlier run left counts in no quota, and nobody may ask for it again.
void Network::Impl::clear_downloads() {
    if (options.downloads.empty()) return;
    DIR* handle = ::opendir(options.downloads.c_str());
    if (handle == nullptr) return;
    while (const dirent* entry = ::readdir(handle))
        if (const std::string_view name = entry->d_name; name.find(".part") != std::string_view::npos)
            (void)fs::remove_file(options.downloads + "/" + std::string(name));
    ::closedir(handle);
}

void Network::Impl::tick_fetches() {
    std::vector<Hash32> ids;
    for (const auto& [id, fetch] : fetches) ids.push_back(id);
    for (const auto& id : ids) {
        const auto at = fetches.find(id);
        if (at == fetches.end()) continue;
        Fetch& fetch = at->second;
        if (fetch.storing) continue;
        (void)fetch.plan.expired(now_ms());
        if (now_ms() >= fetch.progress_ms + kFetchStallMs) {
            end_fetch(id, busy("network.fetch_stalled", "nothing came for a while"));
            continue;
        }
        // Room before the first byte; nobody else gets it until this content is whole or given up.
        if (fetch.plan.manifest() != nullptr && !fetch.reservation) {
            auto room = options.contents->reserve(fetch.plan.manifest()->size);
            if (!room) {
                end_fetch(id, fail(room.error()));
                continue;
            }
            fetch.reservation = std::move(*room);
        }
        if (fetch.plan.is_done()) {
            if (fetch.writes == 0) store_content(id);
            continue;
        }
        if (now_ms() >= fetch.next_find_ms) find_sources(id, fetch);
        if (fetch.writes >= kMaxWrites) continue;  // the disk is slower than the network
        for (const auto& ask : fetch.plan.next_asks(now_ms())) ask_leaves(ask);
    }
}

void Network::Impl::find_sources(const Hash32& id, Fetch& fetch) {
    fetch.next_find_ms = now_ms() + kFindContentMs;
    std::vector<Bytes20> targets;
    for (const auto& [address, peer] : peers)
        if (peer.session.has_hello()) targets.push_back(address);
    for (const auto& address : targets)
        request(address, Type::find_content, encode(messages::FindContent{{id}}), kRequestMs,
                [this, address, id](Expected<Bytes> body) {
                    if (!body) return;
                    const auto info = messages::decode_content_info(*body);
                    if (!info) return penalize(address, Offence::malformed, info.error().to_string());
                    const auto now = fetches.find(id);
                    const auto peer = peers.find(address);
                    if (now == fetches.end() || peer == peers.end()) return;
                    FetchPlan& plan = now->second.plan;
                    for (const auto& holding : info->holdings)
                        if (holding.id == id && plan.add_source(address, holding, now_ms()))
                            plan.set_round_trip(address, round_trip_ms(peer->second));
                    tick_fetches();
                });
}

void Network::Impl::ask_leaves(const FetchPlan::Ask& ask) {
    request(ask.peer, ask.hashes ? Type::get_leaf_hashes : Type::get_leaves, encode(ask.request),
            content_exchange::kAnswerMs, [this, ask](Expected<Bytes> body) {
                const auto at = fetches.find(ask.request.id);
                if (at == fetches.end()) return;
                FetchPlan& plan = at->second.plan;
                if (!body) {
                    if (body.error().is_busy())
                        plan.refused_for_now(ask, now_ms());
                    else
                        plan.failed(ask, now_ms());
                    return tick_fetches();
                }
                auto leaves = messages::decode_leaves(*body);
                if (!leaves) {
                    penalize(ask.peer, Offence::malformed, leaves.error().to_string());
                    return plan.failed(ask, now_ms());
                }
                std::optional<Error> wrong;
                if (ask.hashes) {
                    if (const auto status = plan.received_hashes(ask.peer, *leaves); !status) wrong = status.error();
                } else {
                    const auto chunk = plan.received_leaves(ask.peer, *leaves, now_ms());
                    if (!chunk) wrong = chunk.error();
                    if (chunk && chunk->is_new) write_chunk(ask.request.id, chunk->offset, std::move(leaves->bytes));
                }
                // A request that was given to another meanwhile is no fault of who answers it late.
                if (wrong && !wrong->is_busy()) penalize(ask.peer, Offence::bad_leaf, wrong->to_string());
                tick_fetches();
            });
}

void Network::Impl::write_chunk(const Hash32& id, std::uint64_t offset, Bytes bytes) {
    Fetch& fetch = fetches.at(id);
    ++fetch.writes;
    fetch.progress_ms = now_ms();
    asio::post(disk, [this, id, offset, path = part_path(id), bytes = std::move(bytes)] {
        auto status = write_at(path, offset, bytes);
        post([this, id, status = std::move(status)]() mutable {
            const auto at = fetches.find(id);
            if (at == fetches.end()) return;
            --at->second.writes;
            if (!status) return end_fetch(id, std::move(status));
            tick_fetches();
        });
    });
}

void Network::Impl::store_content(const Hash32& id) {
    Fetch& fetch = fetches.at(id);
    fetch.storing = true;
    asio::post(disk, [this, id, part = part_path(id), size = fetch.plan.manifest()->size,
                      room = std::move(fetch.reservation)]() mutable {
        auto status = options.contents->adopt(id, size, part, std::move(room));
        post([this, id, status = std::move(status)]() mutable { end_fetch(id, std::move(status)); });
    });
}

void Network::Impl::end_fetch(const Hash32& id, quern::Status status) {
    const auto at = fetches.find(id);
    if (at == fetches.end()) return;
    const auto done = std::move(at->second.done);
    // After the writes that are under way; what was not finished gives its room back when the file is gone.
    asio::post(disk, [part = part_path(id), room = std::move(at->second.reservation)] { (void)fs::remove_file(part); });
    fetches.erase(at);
    for (const auto& each : done) each(status);
}

// --- Contents: serving
// ------------------------------------------------------------------------------------------------

void Network::Impl::serve_find(Peer& peer, std::uint32_t stream, const messages::FindContent& asked) {
    messages::ContentInfo info;
    for (const auto& id : asked.ids) {
        if (options.contents == nullptr) break;
        if (const auto size = options.contents->size(id)) {
            info.holdings.push_back({id, *size, {}});
            continue;
        }
        // What is on its way here can be passed on already.
        const auto fetch = fetches.find(id);
        if (fetch == fetches.end() || fetch->second.plan.chunks_present() == 0 || fetch->second.writes != 0) continue;
        const FetchPlan& plan = fetch->second.plan;
        Bytes chunks((plan.chunks() + 7) / 8);
        for (std::uint64_t i = 0; i < plan.chunks(); ++i)
            if (plan.is_present(i)) chunks[i / 8] = static_cast<std::uint8_t>(chunks[i / 8] | 1U << (i % 8));
        info.holdings.push_back({id, plan.manifest()->size, std::move(chunks)});
    }
    answer(peer.address, stream, Type::content_info, encode(info));
}

void Network::Impl::serve_leaves(Peer& peer, Type type, std::uint32_t stream, const messages::GetLeaves& asked) {
    // Reading and checking a chunk takes a millisecond of the disk thread: not for who does not read what it was given.
    const std::uint64_t bytes = asked.count * (type == Type::get_leaves ? crypto::kContentLeafBytes : sizeof(Hash32));
    if (!peer.answers->has_room(bytes))
        return answer(peer.address, stream, Type::refusal, encode(messages::Refusal{RefusalCode::busy, {}}));
    Responder reply = responder(peer, type, stream);
    if (options.contents == nullptr) return reply.refuse(RefusalCode::not_found);
    std::string part;
    if (const auto fetch = fetches.find(asked.id); fetch != fetches.end() && fetch->second.plan.manifest() != nullptr) {
        const FetchPlan& plan = fetch->second.plan;
        const std::uint64_t chunk = asked.first / messages::kLeavesPerChunk;
        const std::uint64_t size = plan.manifest()->size;
        if (type == Type::get_leaves && chunk < plan.chunks() && plan.is_present(chunk) &&
            asked.first + asked.count <= crypto::content_leaf_count(size))
            part = part_path(asked.id);
    }
    // Hosts take turns; those that this node chose are each their own.
    const bool chosen = manager.is_fixed(peer.address) || peer.control->is_outbound();
    const std::string host = chosen ? to_hex0x(peer.address) : transport::host_key(peer.control->remote_host());
    reads.add(host, [this, asked, type, part, reply]() mutable { read_leaves(asked, type, part, reply); });
    read_next();
}

void Network::Impl::read_next() {
    while (reading < kReadsAtOnce) {
        auto read = reads.next();
        if (!read) return;
        ++reading;
        asio::post(disk, [this, read = std::move(*read)] {
            read();
            post([this] {
                --reading;
                if (!stopping) read_next();
            });
        });
    }
}

// On the disk thread.
void Network::Impl::read_leaves(const messages::GetLeaves& asked, Type type, const std::string& part,
                                Responder& reply) const {
    messages::Leaves out{asked.id, asked.first, {}};
    constexpr std::uint64_t kLeaf = crypto::kContentLeafBytes;
    if (type == Type::get_leaf_hashes) {
        const auto manifest = options.contents->manifest(asked.id);
        if (!manifest || asked.first + asked.count > (*manifest)->leaves.size())
            return reply.refuse(RefusalCode::not_found);
        for (std::uint64_t i = 0; i < asked.count; ++i) append(out.bytes, (*manifest)->leaves[asked.first + i]);
        return reply.answer_leaves(messages::Type::leaf_hashes, out);
    }
    auto bytes = options.contents->read(asked.id, asked.first * kLeaf, asked.count * kLeaf);
    if (!bytes && !part.empty()) {
        // The last leaf may be shorter than what is asked for here; such a chunk waits until the content is whole.
        bytes = read_at(part, asked.first * kLeaf, asked.count * kLeaf);
    }
    if (!bytes || bytes->empty()) return reply.refuse(RefusalCode::not_found);
    out.bytes = std::move(*bytes);
    reply.answer_leaves(messages::Type::leaves, out);
}

}  // namespace quern::p2p
