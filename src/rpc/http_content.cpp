// /content/<id>: downloads with ranges and streamed uploads, a piece in memory at a time; /content/<id>/leaves is
// downloaded alike, and
// /content/<id>/shards, which is small, both ways.
#include <limits>

#include "base/log.h"
#include "crypto/content_id.h"
#include "rpc/http_range.h"
#include "rpc/http_session.h"

namespace quern::rpc {
namespace {

wire::status status_of(const Error& error) {
    if (error.is_busy()) return wire::status::service_unavailable;
    if (error.name == "content.not_found") return wire::status::not_found;
    if (error.name == "content.too_large") return wire::status::payload_too_large;
    if (error.name == "content.quota_exceeded" || error.name == "content.disk_full")
        return wire::status::insufficient_storage;
    if (error.name == "content.id_mismatch") return wire::status::unprocessable_entity;
    if (error.name == "content.too_slow") return wire::status::request_timeout;
    return wire::status::internal_server_error;
}

constexpr std::string_view kLeaves = "/leaves";
constexpr std::string_view kShards = "/shards";
constexpr std::uint64_t kSizeBytes = 8;  // before the leaves

}  // namespace

struct HttpSession::Download {
    Hash32 id;
    bool leaves = false;
    std::uint64_t offset = 0;
    std::uint64_t left = 0;
    wire::response<wire::buffer_body> response;
    std::optional<wire::response_serializer<wire::buffer_body>> serializer;
    Expected<Bytes> piece;
};

struct HttpSession::Upload {
    std::unique_ptr<UploadPlaces::Place> place;  // goes before the reply: afterwards nobody may end the upload
    std::unique_ptr<chain::api::ContentGateway::Upload> target;
    std::optional<wire::request_parser<wire::buffer_body>> parser;
    Hash32 id;
    std::uint64_t size = 0;
    Bytes piece;
    std::size_t filled = 0;
    bool known = false;  // the store has it already
    Status status;
    std::optional<Error> ended;  // it has to end, for this
};

void HttpSession::reply_error(const Error& error, bool close) {
    reply_error(status_of(error), error.name, error.detail, close);
}

void HttpSession::route_content(wire::verb verb, std::string_view text) {
    if (host_.hooks().content == nullptr)
        return reply_error(wire::status::not_found, "content.no_store", "this node has no content store", has_body());
    const bool leaves = text.ends_with(kLeaves);
    const bool shards = text.ends_with(kShards);
    if (leaves) text.remove_suffix(kLeaves.size());
    if (shards) text.remove_suffix(kShards.size());
    const auto id = fixed_from_hex<32>(text);
    if (!id)
        return reply_error(wire::status::bad_request, "content.bad_id", "an id is 32 bytes of hexadecimal", has_body());
    switch (verb) {
        case wire::verb::get:
        case wire::verb::head:
            if (has_body())
                return reply_error(wire::status::bad_request, "http.unexpected_body", "GET has no body", true);
            return shards ? send_shards(*id) : begin_download(*id, leaves);
        case wire::verb::put:
            if (!leaves) return begin_upload(*id, shards);
            break;
        default:
            break;
    }
    reply_error(wire::status::method_not_allowed, "http.method_not_allowed",
                leaves ? "use GET or HEAD" : "use GET, HEAD or PUT", has_body());
}

void HttpSession::begin_download(const Hash32& id, bool leaves) {
    auto size = std::make_shared<Expected<std::uint64_t>>(std::uint64_t{0});
    const std::string range(field(wire::field::range));
    const auto given = header_->get()[std::string(chain::api::kMaxBytesHeader)];
    const std::string_view limit(given.data(), given.size());
    const auto most = limit.empty() ? std::numeric_limits<std::uint64_t>::max() : parse_number(limit);
    if (!most)
        return reply_error(wire::status::bad_request, "http.bad_header",
                           std::string(chain::api::kMaxBytesHeader) + " is a number of bytes", false);
    const bool queued = host_.enqueue(
        client_, false,
        // Fetching costs other nodes' time and this one's disk: not for a stranger's web page.
        [size, id, content = host_.hooks().content, fetch = caller_.authenticated, most = *most] {
            *size = fetch ? content->obtain(id, most) : content->size(id);
        },
        [self = shared_from_this(), size, id, leaves, range] {
            if (!*size) return self->reply_error(size->error(), false);
            self->send_download(id, leaves, **size, range);
        });
    if (!queued) busy();
}

void HttpSession::send_download(const Hash32& id, bool leaves, std::uint64_t size, const std::string& range_header) {
    if (leaves) size = kSizeBytes + Hash32::kSize * crypto::content_leaf_count(size);
    const ByteRange range = parse_range(range_header, size);
    auto download = std::make_shared<Download>();
    download->id = id;
    download->leaves = leaves;
    download->offset = range.offset;
    download->left = range.length;
    auto& response = download->response;
    response.version(11);
    response.set(wire::field::server, "quern");
    response.set(wire::field::accept_ranges, "bytes");
    if (!origin_.empty()) response.set(wire::field::access_control_allow_origin, origin_);
    if (range.kind == ByteRange::Kind::unsatisfiable) {
        response.result(wire::status::range_not_satisfiable);
        response.set(wire::field::content_range, "bytes */" + std::to_string(size));
    } else {
        response.set(wire::field::content_type, "application/octet-stream");
        response.set(wire::field::etag, '"' + to_hex(id) + (leaves ? "-leaves\"" : "\""));
        response.set(wire::field::cache_control, "public, max-age=31536000, immutable");
        if (range.kind == ByteRange::Kind::part) {
            response.result(wire::status::partial_content);
            response.set(wire::field::content_range, "bytes " + std::to_string(range.offset) + "-" +
                                                         std::to_string(range.offset + range.length - 1) + "/" +
                                                         std::to_string(size));
        }
    }
    response.content_length(range.length);
    response.keep_alive(keep_alive_);
    response.body().data = nullptr;
    response.body().more = true;
    if (is_head_) download->left = 0;
    download->serializer.emplace(response);
    arm(host_.options().write_ms);
    wire::async_write_header(stream_, *download->serializer,
                             [self = shared_from_this(), download](error_code code, std::size_t) {
                                 if (code) return self->close();
                                 self->next_piece(download);
                             });
}

void HttpSession::next_piece(const std::shared_ptr<Download>& download) {
    if (download->left == 0) return after_write(keep_alive_);
    const std::uint64_t wanted = std::min<std::uint64_t>(download->left, kContentPiece);
    const auto send = [self = shared_from_this(), download, wanted] {
        if (!download->piece || download->piece->size() != wanted) {
            log::warning(log::Category::content, "download stopped id={} offset={} error={}", to_hex(download->id),
                         download->offset, download->piece ? "short read" : download->piece.error().to_string());
            return self->close();  // the length is promised already: the client sees that it got less
        }
        download->offset += wanted;
        download->left -= wanted;
        auto& body = download->response.body();
        body.data = download->piece->data();
        body.size = download->piece->size();
        body.more = download->left != 0;
        self->arm(self->host_.options().piece_ms);
        wire::async_write(self->stream_, *download->serializer, [self, download](error_code code, std::size_t) {
            if (code && code != wire::error::need_buffer) return self->close();
            self->next_piece(download);
        });
    };
    const bool queued = host_.enqueue(
        client_, true,
        [download, wanted, content = host_.hooks().content] {
            download->piece = download->leaves ? content->read_leaves(download->id, download->offset, wanted)
                                               : content->read(download->id, download->offset, wanted);
        },
        send);
    if (!queued) close();
}

void HttpSession::send_shards(const Hash32& id) {
    auto list = std::make_shared<Expected<Bytes>>(Bytes{});
    const bool queued = host_.enqueue(
        client_, false,
        [list, id, content = host_.hooks().content, fetch = caller_.authenticated] {
            *list = fetch ? content->obtain_shards(id) : content->shards(id);
        },
        [self = shared_from_this(), list] {
            if (!*list) return self->reply_error(list->error(), false);
            Reply found;
            found.content_type = "application/octet-stream";
            found.body.assign((*list)->begin(), (*list)->end());
            self->reply(std::move(found));
        });
    if (!queued) busy();
}

void HttpSession::begin_upload(const Hash32& id, bool shards) {
    if (header_->chunked() || !header_->content_length())
        return reply_error(wire::status::length_required, "http.length_required", "give the Content-Length", true);
    const std::uint64_t size = *header_->content_length();
    if (size > host_.options().max_content_bytes)
        return reply_error(wire::status::payload_too_large, "content.too_large",
                           "a content may have at most " + std::to_string(host_.options().max_content_bytes) + " bytes",
                           true);
    auto place = host_.uploads().open(client_, steady_ms());
    if (!place) return reply_error(place.error(), true);
    auto upload = std::make_shared<Upload>();
    upload->place = std::move(*place);
    upload->id = id;
    upload->size = size;
    const bool queued = host_.enqueue(
        client_, false,
        [upload, shards, content = host_.hooks().content] {
            // Looked into, not only at: putting uses it, so that it does not go next, and what is damaged comes again.
            upload->known = shards ? content->shards(upload->id).has_value()
                                   : content->size(upload->id) && content->read(upload->id, 0, 1);
            if (upload->known) return;
            auto target = shards ? content->begin_shards(upload->id, upload->size)
                                 : content->begin_upload(upload->id, upload->size);
            if (target)
                upload->target = std::move(*target);
            else
                upload->status = fail(target.error());
        },
        [self = shared_from_this(), upload] {
            if (upload->known) {
                upload->place.reset();
                Reply known;
                known.content_type = "application/json";
                known.body = json::Value::object({{"id", hex(upload->id)}, {"known", true}}).dump() + "\n";
                known.close = upload->size != 0;
                return self->reply(std::move(known));
            }
            if (!upload->status) {
                upload->place.reset();
                return self->reply_error(upload->status.error(), true);
            }
            self->take_place(upload);
        });
    if (!queued) {
        keep_alive_ = false;
        busy();
    }
}

// Only now, as the store takes it, does another upload end for this one.
void HttpSession::take_place(const std::shared_ptr<Upload>& upload) {
    const Status taken = upload->place->begin(
        steady_ms(), [session = weak_from_this(), ending = std::weak_ptr(upload)](const Error& why) {
            const auto self = session.lock();
            const auto other = ending.lock();
            if (self && other) self->end_upload(other, why);
        });
    if (!taken) {
        upload->ended = taken.error();
        return drop_upload(upload);
    }
    upload->parser.emplace(std::move(*header_));
    upload->parser->body_limit(std::numeric_limits<std::uint64_t>::max());
    upload->piece.resize(kContentPiece);
    if (!expects_continue_) return read_piece(upload);
    send_continue([self = shared_from_this(), upload] { self->read_piece(upload); });
}

// The operation that it waits for, on the disk or on the line, comes back at once or soon, and finds this.
void HttpSession::end_upload(const std::shared_ptr<Upload>& upload, const Error& why) {
    upload->ended = why;
    stream_.cancel();
}

void HttpSession::drop_upload(const std::shared_ptr<Upload>& upload) {
    const bool queued = host_.enqueue(
        client_, true, [upload] { upload->target.reset(); },
        [self = shared_from_this(), upload] {
            upload->place.reset();
            self->reply_error(*upload->ended, true);
        });
    if (!queued) close();
}

void HttpSession::read_piece(const std::shared_ptr<Upload>& upload) {
    auto& body = upload->parser->get().body();
    body.data = upload->piece.data();
    body.size = upload->piece.size();
    body.more = true;
    upload->place->wait(steady_ms());
    stream_.expires_never();  // UploadPlaces ends what is too slow
    read_more(upload);
}

void HttpSession::read_more(const std::shared_ptr<Upload>& upload) {
    if (upload->ended) return drop_upload(upload);
    const std::size_t room = upload->parser->get().body().size;
    if (room == 0 || upload->parser->is_done()) {
        upload->filled = upload->piece.size() - room;
        upload->place->rest(steady_ms());
        return store_piece(upload);
    }
    wire::async_read_some(stream_, buffer_, *upload->parser,
                          [self = shared_from_this(), upload, room](error_code code, std::size_t) {
                              if (code && code != wire::error::need_buffer && !upload->ended) return self->close();
                              upload->place->received(steady_ms(), room - upload->parser->get().body().size);
                              self->read_more(upload);
                          });
}

void HttpSession::store_piece(const std::shared_ptr<Upload>& upload) {
    const bool last = upload->parser->is_done();
    const bool queued = host_.enqueue(
        client_, true,
        [upload, last] {
            upload->status = upload->target->append(BytesView(upload->piece).first(upload->filled));
            if (upload->status && last) upload->status = upload->target->finish();
            if (!upload->status || last) upload->target.reset();  // removes what was not finished
        },
        [self = shared_from_this(), upload, last] {
            if (upload->status && !last) return self->read_piece(upload);
            upload->place.reset();
            if (!upload->status) return self->reply_error(upload->status.error(), !last);
            Reply stored;
            stored.status = wire::status::created;
            stored.content_type = "application/json";
            stored.body = json::Value::object({{"id", hex(upload->id)}, {"size", upload->size}}).dump() + "\n";
            self->reply(std::move(stored));
        });
    if (!queued) close();
}

}  // namespace quern::rpc
