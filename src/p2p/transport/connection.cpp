#include "p2p/transport/connection.h"

#include <netinet/tcp.h>

#include <algorithm>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <chrono>

#include "base/big_endian.h"
#include "p2p/transport/host_group.h"

namespace quern::p2p::transport {
namespace {

// What is wrong with authenticated bytes is the peer's doing, unless it is this node that lacks something.
Blame blame_of(const Error& error) { return error.kind == ErrorKind::input ? Blame::peer : Blame::nobody; }

}  // namespace

Connection::Connection(tcp::socket socket, const ConnectionShared& shared)
    : socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      pace_timer_(socket_.get_executor()),
      shared_(shared),
      assembler_(shared.unfinished, shared.unfinished_ms, [this] {
          asio::post(socket_.get_executor(), [self = shared_from_this()] {
              self->finish({"frame.crowded_out", "others needed the room", ErrorKind::busy});
          });
      }) {}

Connection::Connection(tcp::socket socket, const ConnectionShared& shared, ConnectionKind kind, const Bytes20& expected)
    : Connection(std::move(socket), shared) {
    kind_ = kind;
    expected_ = expected;
}

std::uint64_t Connection::now_us() const {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

void Connection::start() {
    error_code code;
    const auto remote = socket_.remote_endpoint(code);
    if (code) return finish({"connection.lost", code.message()});
    remote_host_ = remote.address().to_string();
    remote_port_ = remote.port();
    socket_.set_option(tcp::no_delay(true), code);
    const int low_water = kNotSentLowWater;
    (void)::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &low_water, sizeof low_water);
    started_ms_ = heard_ms_ = shared_.clock.monotonic_ms();
    assembler_.set_origin(subnet_key(remote_host_), started_ms_);
    arm_timer();
    const HandshakeContext context{shared_.identity, shared_.certificates, shared_.rng, shared_.host};
    if (is_outbound()) {
        handshake_.emplace(context, kind_, *expected_);
        auto first = handshake_->start();
        if (!first) return finish(first.error());
        send_handshake(std::move(*first), false);
    } else {
        handshake_.emplace(context, remote_host_);
    }
    read_handshake();
}

void Connection::arm_timer() {
    // While open, two looks a second are fine enough for limits of many seconds.
    timer_.expires_after(std::chrono::milliseconds(state_ == State::handshake ? kHandshakeLimitMs : 500));
    timer_.async_wait([self = shared_from_this()](error_code code) {
        if (!code) self->on_timer();
    });
}

void Connection::on_timer() {
    const std::uint64_t now = shared_.clock.monotonic_ms();
    if (state_ == State::handshake && now - started_ms_ >= kHandshakeLimitMs)
        return finish({"handshake.timeout", "no handshake within " + std::to_string(kHandshakeLimitMs) + " ms"});
    if (state_ == State::closing && now - closing_ms_ >= kGoodbyeLimitMs) return finish(reason_);
    if (state_ == State::open) {
        if (now - heard_ms_ >= kSilenceLimitMs) return finish({"connection.silent", {}});
        if (writing_ && now - write_started_ms_ >= kStallLimitMs) return finish({"connection.stalled", {}});
        if (const Status status = assembler_.check_time(now); !status) return finish(status.error());
        if (const Status status = queue_.expire(now); !status) return finish(status.error());
        // Answers may be long on their way, and what a cut cable held back arrives at once: never more than the other
        // side lets pass.
        if (now - ping_sent_ms_ >= kPingIntervalMs && open_pings_.size() < kMaxOpenPings) {
            ping_sent_ms_ = now;
            auto body = std::make_shared<Bytes>();
            const std::uint64_t stamp = now_us();
            open_pings_.push_back(stamp);
            append(*body, be64(stamp));
            (void)queue_.push({TrafficClass::urgent, kPingType, 0, std::move(body)}, now);
            pump();
        }
    }
    if (state_ != State::closed) arm_timer();
}

void Connection::read_handshake() {
    asio::async_read(socket_, asio::buffer(small_.data(), handshake_->wanted()),
                     [self = shared_from_this()](error_code code, std::size_t count) {
                         if (self->state_ != State::handshake) return;
                         if (code) return self->finish({"handshake.truncated", code.message()});
                         self->bytes_in_ += count;
                         self->handle_handshake(BytesView(self->small_).first(count));
                     });
}

void Connection::handle_handshake(BytesView bytes) {
    auto answer = handshake_->take(bytes, shared_.clock.now_ms() / 1000);
    if (!answer) return finish(answer.error(), answer.error().is_busy() ? Blame::nobody : Blame::path);
    const bool done = handshake_->is_done();
    if (!answer->empty()) {
        send_handshake(std::move(*answer), done);
    } else if (done) {
        if (const Status status = become_open(); !status) finish(status.error());
        return;
    }
    if (state_ == State::handshake && !done) read_handshake();
}

void Connection::send_handshake(Bytes bytes, bool then_open) {
    auto record = std::make_shared<Bytes>(std::move(bytes));
    bytes_out_ += record->size();
    asio::async_write(socket_, asio::buffer(*record),
                      [self = shared_from_this(), record, then_open](error_code code, std::size_t) {
                          if (self->state_ == State::closed) return;
                          if (code) return self->finish({"connection.lost", code.message()});
                          if (!then_open) return;
                          if (const Status status = self->become_open(); !status) self->finish(status.error());
                      });
}

Status Connection::become_open() {
    QUERN_TRY(const SessionKeys keys, handshake_->split());
    kind_ = handshake_->kind();
    peer_ = handshake_->peer();
    peer_certificate_ = handshake_->peer_certificate();
    session_id_ = handshake_->session_id();
    writer_.emplace(keys.send, max_record());
    reader_.emplace(keys.receive, max_record());
    handshake_.reset();
    state_ = State::open;
    heard_ms_ = shared_.clock.monotonic_ms();
    QUERN_CHECK(shared_.host.opened(*this));
    if (state_ != State::open) return {};
    timer_.cancel();
    on_timer();
    read_records();
    return {};
}

void Connection::read_records() {
    const auto space = reader_->free_space();
    socket_.async_read_some(asio::buffer(space.data(), space.size()),
                            [self = shared_from_this()](error_code code, std::size_t count) {
                                if (self->state_ == State::closed) return;
                                if (code) {
                                    if (self->state_ == State::closing) return self->finish(self->reason_);
                                    const Status status = self->reader_->end_of_input();
                                    if (!status) return self->finish(status.error());
                                    // Without a goodbye the end proves nothing about what the peer meant to say.
                                    if (self->peer_said_goodbye_) return self->finish({"connection.goodbye", {}});
                                    return self->finish({"connection.lost", code.message()});
                                }
                                self->on_bytes(count);
                            });
}

void Connection::on_bytes(std::size_t count) {
    bytes_in_ += count;
    heard_ms_ = shared_.clock.monotonic_ms();
    reader_->received(count);
    while (state_ == State::open || state_ == State::closing) {
        const auto frame = reader_->next();
        // Length bytes travel in the clear, and what does not authenticate was written by somebody.
        if (!frame) return finish(frame.error(), Blame::path);
        if (!*frame) break;
        if (const Status status = handle_frame(**frame); !status) {
            if (state_ != State::closed) finish(status.error(), blame_of(status.error()));
            return;
        }
    }
    if (state_ != State::closed) read_records();
}

Status Connection::handle_frame(const Frame& frame) {
    if (state_ == State::closing) return {};  // nothing more is taken from a peer that is being left
    if (frame.type >= kFirstMessageType) {
        const auto admit = [this](std::uint8_t type, std::uint32_t stream) {
            return shared_.host.admit_message(*this, type, stream);
        };
        QUERN_TRY(auto whole, assembler_.add(frame, admit, heard_ms_));
        if (whole) shared_.host.message(*this, std::move(*whole));
        return {};
    }
    if (frame.more) return fail("connection.bad_control", "cut in parts");
    switch (frame.type) {
        case kPingType:
            if (frame.payload.size() != 8) return fail("connection.bad_control", "ping");
            if (!ping_rate_.try_take(1, now_us())) return fail("connection.ping_flood");
            (void)queue_.push({TrafficClass::urgent, kPongType, 0, std::make_shared<Bytes>(to_bytes(frame.payload))},
                              heard_ms_);
            pump();
            return {};
        case kPongType: {
            if (frame.payload.size() != 8) return fail("connection.bad_control", "pong");
            const std::uint64_t stamp = from_big_endian(frame.payload);
            // A stamp made up from those before would let a peer look nearer than it is, and so never be evicted. A
            // pong may be missing, where the peer's queue was full; none comes twice or before its elders.
            const auto asked = std::find(open_pings_.begin(), open_pings_.end(), stamp);
            if (asked == open_pings_.end()) return fail("connection.bad_control", "a pong without its ping");
            open_pings_.erase(open_pings_.begin(), asked + 1);
            rtt_us_ = std::max<std::uint64_t>(now_us() - stamp, 1);
            ++rtt_samples_;
            if (least_rtt_us_ == 0 || rtt_us_ < least_rtt_us_) least_rtt_us_ = rtt_us_;
            return {};
        }
        case kGoodbyeType:
            peer_said_goodbye_ = true;
            return {};
        default:
            return fail("connection.unknown_type", std::to_string(frame.type));
    }
}

Status Connection::send(TrafficClass traffic, std::uint8_t type, std::uint32_t stream,
                        std::shared_ptr<const Bytes> body) {
    if (state_ != State::open) return fail("connection.not_open");
    QUERN_CHECK(queue_.push({traffic, type, stream, std::move(body)}, shared_.clock.monotonic_ms()));
    pump();
    return {};
}

void Connection::pump() {
    if (writing_ || (state_ != State::open && state_ != State::closing)) return;
    out_.clear();
    const std::size_t batch = kind_ == ConnectionKind::bulk ? kBulkBatch : kControlBatch;
    while (out_.size() < batch) {
        if (state_ == State::closing && queue_.queued_bytes(TrafficClass::urgent) == 0) break;
        const bool bulk_allowed = shared_.bulk_pace.available(now_us()) != 0;
        const auto record = queue_.next(max_payload(writer_->max_record()), bulk_allowed);
        if (!record) break;
        writer_->write({record->type, record->more, record->stream, record->payload}, out_);
        if (record->traffic == TrafficClass::bulk) {
            shared_.bulk_pace.spend(record->payload.size());
            shared_.bulk_sent += record->payload.size();
        }
    }
    if (out_.empty()) {
        if (state_ == State::closing) return finish(reason_);
        if (queue_.has_only_bulk() && !pacing_) {
            pacing_ = true;
            const std::uint64_t wait =
                std::clamp<std::uint64_t>(shared_.bulk_pace.wait_us(1, now_us()), 500, 1'000'000);
            pace_timer_.expires_after(std::chrono::microseconds(wait));
            pace_timer_.async_wait([self = shared_from_this()](error_code code) {
                self->pacing_ = false;
                if (!code) self->pump();
            });
        }
        return;
    }
    writing_ = true;
    write_started_ms_ = shared_.clock.monotonic_ms();
    asio::async_write(socket_, asio::buffer(out_), [self = shared_from_this()](error_code code, std::size_t count) {
        self->writing_ = false;
        if (self->state_ == State::closed) return;
        if (code) return self->finish({"connection.lost", code.message()});
        self->bytes_out_ += count;
        self->pump();
    });
}

void Connection::close(Error reason) {
    if (state_ == State::closed || state_ == State::closing) return;
    if (state_ == State::handshake) return finish(reason);
    state_ = State::closing;
    reason_ = std::move(reason);
    closing_ms_ = shared_.clock.monotonic_ms();
    (void)queue_.push({TrafficClass::urgent, kGoodbyeType, 0, std::make_shared<Bytes>(1)}, closing_ms_);
    queue_.clear_shared();
    const auto self = shared_from_this();
    asio::post(socket_.get_executor(), [self] { self->pump(); });
}

void Connection::abort(Error reason) { finish(reason); }

void Connection::finish(const Error& reason, Blame blame) {
    if (state_ == State::closed) return;
    state_ = State::closed;
    const auto self = shared_from_this();  // the host may drop its last reference
    error_code ignored;
    timer_.cancel();
    pace_timer_.cancel();
    socket_.shutdown(tcp::socket::shutdown_both, ignored);
    socket_.close(ignored);
    handshake_.reset();
    queue_.clear_shared();
    shared_.host.closed(*this, reason, blame);
}

}  // namespace quern::p2p::transport
