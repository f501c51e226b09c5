#include "rpc/websocket/connection.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <chrono>
#include <utility>

#include "base/eviction.h"

namespace quern::rpc::websocket {
namespace {

namespace http = boost::beast::http;
namespace ws = boost::beast::websocket;

constexpr std::size_t kMaxReason = 123;         // bytes of a close frame's text
constexpr std::size_t kReadPiece = 64U << 10;   // bytes of a message taken at a time
constexpr std::size_t kMaxHeader = 16U << 10;   // of the upgrade request
constexpr std::size_t kKeptBuffer = 16U << 10;  // memory kept between messages
constexpr int kSocketSendBuffer = 512 << 10;    // asked of the kernel, which would grow to megabytes by itself
constexpr std::uint32_t kGoodbyeMs = 500;       // from a client's close frame to the end of the connection
constexpr std::uint32_t kBeastSlackMs = 3'000;  // by which Beast's timer comes after ours
constexpr std::uint32_t kRefusalMs = 500;       // for a refused client to take the answer

std::string text_of(beast::string_view text) { return {text.data(), text.size()}; }

std::uint16_t code_of(error_code code) {
    if (code == ws::error::message_too_big || code == ws::error::buffer_overflow) return ws::close_code::too_big;
    if (code == ws::error::bad_frame_payload) return ws::close_code::bad_payload;
    return ws::close_code::protocol_error;
}

}  // namespace

std::uint64_t steady_ms() {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

Connection::Connection(asio::io_context& io, Host& host, ConnectionId id, tcp::socket socket, std::string received)
    : io_(io),
      host_(host),
      id_(id),
      stream_(std::move(socket)),
      deadline_(io),
      pong_deadline_(io),
      message_deadline_(io),
      since_ms_(steady_ms()) {
    error_code ignored;
    auto& raw = stream_.next_layer();
    raw.set_option(tcp::no_delay(true), ignored);
    raw.set_option(asio::socket_base::send_buffer_size(kSocketSendBuffer), ignored);
    if (const auto remote = raw.remote_endpoint(ignored); !ignored) {
        const std::string address = remote.address().to_string();
        client_host_ = handshake_.client = host_of(address);
        handshake_.remote = address + ":" + std::to_string(remote.port());
    }
    buffer_.commit(asio::buffer_copy(buffer_.prepare(received.size()), asio::buffer(received)));
}

void Connection::arm(std::uint32_t milliseconds, std::function<void(Connection&)> late) {
    deadline_.expires_after(std::chrono::milliseconds(milliseconds));
    deadline_.async_wait([self = shared_from_this(), late = std::move(late)](error_code stopped) {
        if (!stopped) late(*self);
    });
}

// --- Handshake ---

void Connection::start() {
    arm(host_.options().handshake_ms, [](Connection& self) { self.drop(0, {}); });
    parser_.emplace();
    parser_->header_limit(kMaxHeader);
    http::async_read_header(stream_.next_layer(), buffer_, *parser_,
                            [self = shared_from_this()](error_code code, std::size_t) {
                                if (self->state_ == State::ended) return;
                                if (!code) return self->judge();
                                if (code == http::error::header_limit) return self->refuse(431, "header too large");
                                if (code == http::error::end_of_stream || code == http::error::partial_message ||
                                    code.category() != http::make_error_code(http::error::bad_method).category())
                                    return self->end(0, {});
                                self->refuse(400, code.message());
                            });
}

void Connection::judge() {
    const auto& request = parser_->get();
    if (host_.stopping()) return refuse(503, "the node is stopping");
    if (!ws::is_upgrade(request) || request[http::field::sec_websocket_version] != "13")
        return refuse(426, "this is a WebSocket port (RFC 6455)");
    if (request.count(http::field::host) > 1) return refuse(400, "more than one Host header");
    // A client waits for the answer before it sends frames.
    if (buffer_.size() != 0) return refuse(400, "data before the handshake is done");
    handshake_.origin = text_of(request[http::field::origin]);
    handshake_.host = text_of(request[http::field::host]);
    handshake_.authorization = text_of(request[http::field::authorization]);
    const unsigned status = host_.handler().admit(handshake_);
    if (status == 101) return accept();
    if (status != 401) return refuse(status, {});
    // Guessing passwords is no quicker here than over HTTP.
    pong_deadline_.expires_after(std::chrono::milliseconds(host_.options().unauthorized_ms));
    pong_deadline_.async_wait([self = shared_from_this()](error_code stopped) {
        if (!stopped && self->state_ == State::handshake) self->refuse(401, {});
    });
}

void Connection::refuse(unsigned status, std::string_view text) {
    refusal_.emplace(http::int_to_status(status), 11);
    refusal_->set(http::field::server, "quern");
    refusal_->set(http::field::connection, "close");
    if (status == 426) {
        refusal_->set(http::field::upgrade, "websocket");
        refusal_->set(http::field::sec_websocket_version, "13");
    }
    if (status == 401) refusal_->set(http::field::www_authenticate, "Basic realm=\"quern\"");
    refusal_->body() = text.empty() ? std::string() : std::string(text) + "\n";
    refusal_->prepare_payload();
    http::async_write(stream_.next_layer(), *refusal_, [self = shared_from_this()](error_code code, std::size_t) {
        if (code || self->state_ == State::ended) return self->end(0, {});
        error_code ignored;
        self->stream_.next_layer().shutdown(tcp::socket::shutdown_send, ignored);
        self->arm(kRefusalMs, [](Connection& late) { late.end(0, {}); });
        self->refused();
    });
}

// Closing a socket with unread bytes resets it, and the client would lose the answer that says why.
void Connection::refused() {
    buffer_.clear();
    stream_.next_layer().async_read_some(buffer_.prepare(kReadPiece),
                                         [self = shared_from_this()](error_code code, std::size_t) {
                                             if (code || self->state_ == State::ended) return self->end(0, {});
                                             self->refused();
                                         });
}

void Connection::accept() {
    stream_.set_option(
        ws::stream_base::decorator([](ws::response_type& response) { response.set(http::field::server, "quern"); }));
    // Closing that Beast begins itself, after a bad frame, has this limit; deadline_ has the others and must come
    // first: Beast 1.74 asserts when its own timer ends a close that a read waits for.
    stream_.set_option(ws::stream_base::timeout{std::chrono::milliseconds(host_.options().close_ms + kBeastSlackMs),
                                                ws::stream_base::none(), false});
    stream_.read_message_max(host_.options().max_message_bytes);
    stream_.auto_fragment(false);
    stream_.text(true);
    stream_.control_callback([this](ws::frame_type type, beast::string_view) {
        if (type == ws::frame_type::ping) return;
        awaits_pong_ = false;
        pong_deadline_.cancel();
        // Once it has said goodbye a client has little time to close its side.
        if (type == ws::frame_type::close && state_ == State::open)
            arm(kGoodbyeMs, [](Connection& self) { self.read_failed(ws::error::closed); });
    });
    stream_.async_accept(parser_->get(), [self = shared_from_this()](error_code code) {
        if (self->state_ == State::ended) return;
        if (code) return self->end(0, {});
        self->deadline_.cancel();
        self->parser_.reset();
        self->buffer_.clear();
        self->state_ = State::open;
        self->since_ms_ = steady_ms();
        {
            const MutexLock lock(self->mutex_);
            self->closing_ = false;
        }
        self->host_.opened(self);
        self->host_.handler().opened(self->id_, self->handshake_);
        if (self->host_.stopping()) self->begin_close(kGoingAway, "the node is stopping");
        self->read();
    });
}

// --- In ---

void Connection::read() {
    stream_.async_read_some(buffer_, kReadPiece, [self = shared_from_this()](error_code code, std::size_t) {
        if (self->state_ == State::ended) return;
        if (code) return self->read_failed(code);
        self->got_bytes();
    });
}

// What it has taken, of which a message may fill half: it grows by doubling.
void Connection::count_buffer() {
    const std::size_t before = std::exchange(buffered_, buffer_.capacity());
    hold(static_cast<std::ptrdiff_t>(buffered_) - static_cast<std::ptrdiff_t>(before));
}

void Connection::got_bytes() {
    count_buffer();
    if (state_ != State::open || !stream_.got_text()) {
        buffer_.consume(buffer_.size());
        begin_close(kUnsupportedData, "text messages only");
    } else if (stream_.is_message_done()) {
        in_message_ = false;
        message_deadline_.cancel();
        since_ms_ = steady_ms();
        const auto data = buffer_.data();
        std::string text(static_cast<const char*>(data.data()), data.size());
        buffer_.consume(data.size());
        if (buffer_.capacity() > kKeptBuffer) buffer_.shrink_to_fit();
        count_buffer();
        host_.handler().received(id_, std::move(text));
    } else if (!std::exchange(in_message_, true)) {
        message_deadline_.expires_after(std::chrono::milliseconds(host_.options().message_ms));
        message_deadline_.async_wait([self = shared_from_this()](error_code stopped) {
            if (!stopped) self->begin_close(kPolicyViolation, "the message took too long");
        });
    }
    read();
}

void Connection::read_failed(error_code code) {
    if (own_code_ != 0) return end(own_code_, own_reason_);
    if (code == ws::error::closed) {
        const auto& reason = stream_.reason();
        return end(reason.code, std::string(reason.reason.data(), reason.reason.size()));
    }
    const bool is_bad_frame = code.category() == ws::make_error_code(ws::error::bad_opcode).category();
    end(is_bad_frame ? code_of(code) : 1006, code.message());
}

void Connection::ping() {
    // Another ping would start the wait for the pong anew.
    if (state_ != State::open || pinging_ || awaits_pong_) return;
    awaits_pong_ = pinging_ = true;
    stream_.async_ping(ws::ping_data{}, [self = shared_from_this()](error_code) { self->pinging_ = false; });
    pong_deadline_.expires_after(std::chrono::milliseconds(host_.options().pong_ms));
    pong_deadline_.async_wait([self = shared_from_this()](error_code stopped) {
        if (!stopped && self->awaits_pong_) self->begin_close(kPolicyViolation, "no pong in time");
    });
}

// --- Out ---

void Connection::hold(std::ptrdiff_t bytes) {
    if (bytes == 0) return;
    held_ += bytes;
    host_.held_more(bytes);
}

void Connection::hold_more(std::ptrdiff_t bytes) {
    {
        const MutexLock lock(mutex_);
        if (released_) return;
        handler_holds_ += bytes;
    }
    hold(bytes);
}

bool Connection::send(std::string text) {
    const auto size = static_cast<std::ptrdiff_t>(text.size());
    bool too_slow = false;
    bool post = false;
    {
        const MutexLock lock(mutex_);
        if (closing_) return false;
        if (queued_bytes_ >= host_.options().max_outgoing_bytes) {
            too_slow = true;
        } else {
            queued_bytes_ += text.size();
            queue_.push_back(std::move(text));
            post = !std::exchange(flush_posted_, true);
        }
    }
    if (too_slow) {
        begin_close(kPolicyViolation, "too slow: messages wait unread");
        return false;
    }
    hold(size);
    if (post) asio::post(io_, [self = shared_from_this()] { self->flush(); });
    return true;
}

std::size_t Connection::waiting() const {
    const MutexLock lock(mutex_);
    return queued_bytes_;
}

void Connection::flush() {
    {
        const MutexLock lock(mutex_);
        flush_posted_ = false;
        if (writing_ || closing_ || queue_.empty()) return;
        being_written_ = std::move(queue_.front());
        queue_.pop_front();
        queued_bytes_ -= being_written_.size();
        writing_ = true;
    }
    written_counts_ = being_written_.size();
    stream_.async_write(asio::buffer(being_written_), [self = shared_from_this()](error_code code, std::size_t) {
        self->writing_ = false;
        self->hold(-static_cast<std::ptrdiff_t>(std::exchange(self->written_counts_, 0)));
        self->being_written_ = {};
        if (!code) self->flush();  // else reading fails, too
    });
}

void Connection::drop_queue() {
    std::deque<std::string> dropped;
    std::size_t bytes = 0;
    {
        const MutexLock lock(mutex_);
        closing_ = true;
        dropped.swap(queue_);
        bytes = std::exchange(queued_bytes_, 0);
    }
    hold(-static_cast<std::ptrdiff_t>(bytes));
}

// --- Closing ---

void Connection::begin_close(std::uint16_t code, std::string reason) {
    {
        const MutexLock lock(mutex_);
        if (closing_) return;
        closing_ = true;
    }
    drop_queue();
    if (reason.size() > kMaxReason) reason.resize(kMaxReason);
    asio::post(io_, [self = shared_from_this(), code, text = std::move(reason)] { self->close_now(code, text); });
}

void Connection::close_now(std::uint16_t code, const std::string& reason) {
    if (state_ != State::open) return;
    state_ = State::closing;
    own_code_ = code;
    own_reason_ = reason;
    // A client that does not read keeps even the close frame from leaving.
    arm(host_.options().close_ms, [](Connection& self) { self.end(self.own_code_, self.own_reason_); });
    stream_.async_close(ws::close_reason(static_cast<ws::close_code>(code), beast::string_view(reason)),
                        [self = shared_from_this(), code, reason](error_code) { self->end(code, reason); });
}

void Connection::drop(std::uint16_t code, const std::string& reason) { end(code, reason); }

void Connection::end(std::uint16_t code, const std::string& reason) {
    if (state_ == State::ended) return;
    const bool was_open = state_ != State::handshake;
    state_ = State::ended;
    drop_queue();
    hold(-static_cast<std::ptrdiff_t>(std::exchange(buffered_, 0)));
    // Its write ends in a moment: counted on, it would cost the next connection its place, too.
    hold(-static_cast<std::ptrdiff_t>(std::exchange(written_counts_, 0)));
    std::ptrdiff_t handlers = 0;
    {
        const MutexLock lock(mutex_);
        released_ = true;
        handlers = std::exchange(handler_holds_, 0);
    }
    hold(-handlers);
    deadline_.cancel();
    pong_deadline_.cancel();
    message_deadline_.cancel();
    error_code ignored;
    stream_.next_layer().close(ignored);
    host_.ended(*this);
    if (was_open) host_.handler().closed(id_, code, reason);
}

}  // namespace quern::rpc::websocket
