// POST /: a JSON-RPC request is read piece by piece, answered in slices, and given up when its client has gone.
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <boost/asio/write.hpp>

#include "rpc/http_session.h"

namespace quern::rpc {
namespace {

constexpr std::size_t kAnswerHead = 256;

bool is_json_type(std::string_view type) {
    type = type.substr(0, type.find(';'));
    while (type.ends_with(' ')) type.remove_suffix(1);
    return beast::iequals({type.data(), type.size()}, "application/json") ||
           beast::iequals({type.data(), type.size()}, "application/json-rpc");
}

}  // namespace

struct HttpSession::RunningCall {
    RunningCall(std::uint64_t limit_ms, const std::atomic<bool>& stopping)
        : deadline(std::chrono::milliseconds(limit_ms), &stopping) {}
    CallDeadline deadline;
    std::unique_ptr<Job> job;  // refers to `deadline`
    std::size_t request = 0;   // bytes
    bool is_large = false;
    bool done = false;
};

void HttpSession::read_rpc() {
    const std::string_view type = field(wire::field::content_type);
    // A browser sends other types across origins without asking first; programs may leave the type out.
    if (!origin_.empty() && !is_json_type(type))
        return reply_error(wire::status::unsupported_media_type, "http.unsupported_media_type",
                           "the content type must be application/json", true);
    const std::uint64_t limit = host_.options().max_body_bytes;
    if (header_->content_length() && *header_->content_length() > limit)
        return reply_error(wire::status::payload_too_large, "http.body_too_large",
                           "a request may have at most " + std::to_string(limit) + " bytes", true);
    const auto begin = [](const std::shared_ptr<HttpSession>& self) {
        self->rpc_body_.emplace(std::move(*self->header_));
        self->rpc_body_->body_limit(self->host_.options().max_body_bytes);
        self->rpc_body_->eager(true);
        self->set_deadline(self->host_.options().body_ms);
        self->take_rpc_body();
    };
    if (!expects_continue_) return begin(shared_from_this());
    send_continue([self = shared_from_this(), begin] { begin(self); });
}

// What has arrived counts, not what was announced.
void HttpSession::take_rpc_body() {
    if (!rpc_body_->is_done() && buffer_.size() != 0) {
        error_code code;
        buffer_.consume(rpc_body_->put(buffer_.data(), code));
        if (code && code != wire::error::need_more) return refuse_rpc_body(code);
        hold(rpc_body_->get().body().size());
        if (is_closed_) return;  // it held most
    }
    if (!rpc_body_->is_done()) return receive(&HttpSession::take_rpc_body);
    answer_rpc(std::move(rpc_body_->get().body()));
}

void HttpSession::refuse_rpc_body(error_code code) {
    set_deadline(0);
    if (code == wire::error::body_limit)
        return reply_error(wire::status::payload_too_large, "http.body_too_large",
                           "a request may have at most " + std::to_string(host_.options().max_body_bytes) + " bytes",
                           true);
    reply_error(wire::status::bad_request, "http.malformed", code.message(), true);
}

void HttpSession::answer_rpc(std::string body) {
    set_deadline(0);  // the call has one of its own
    auto call = std::make_shared<RunningCall>(host_.options().call_ms, host_.stopping());
    call->request = body.size();
    call->is_large = body.size() > kSmallRequest;
    call->job = host_.hooks().rpc(std::move(body), CallContext{caller_, nullptr, &call->deadline});
    call_ = call;
    if (!call->is_large) return run_call(call, false);
    host_.begin_large_job({client_, [self = shared_from_this(), call] { self->run_call(call, true); },
                           [self = shared_from_this(), call] {
                               call->is_large = false;
                               if (self->is_closed_) return;
                               self->cancel_call();
                               self->busy();
                           },
                           this});
}

void HttpSession::run_call(const std::shared_ptr<RunningCall>& call, bool admitted) {
    const bool queued = host_.enqueue(
        client_, admitted, [call] { call->done = call->job->run(kJobSlice); },
        [self = shared_from_this(), call] {
            if (call->done || self->host_.stopping()) return self->finish_call(call);
            // May end the call of whoever holds most.
            if (!self->is_closed_) self->hold(call->request + call->job->held());
            self->run_call(call, true);
        });
    if (queued) return;
    cancel_call();
    busy();
}

void HttpSession::finish_call(const std::shared_ptr<RunningCall>& call) {
    if (call->is_large) host_.end_large_job(client_);
    cancel_call();
    if (is_closed_) return;
    auto text = call->job->take_answer();
    call->job.reset();
    if (text) return send_answer(std::move(*text));
    Reply nothing;
    nothing.status = wire::status::no_content;
    reply(std::move(nothing));
}

// As reply() does it, in one system call where the client takes it all.
void HttpSession::send_answer(std::string body) {
    hold(body.size());
    if (is_closed_) return;  // it held most
    auto text = std::make_shared<std::array<std::string, 2>>();
    auto& head = text->front();
    head.reserve(kAnswerHead);
    head = "HTTP/1.1 200 OK\r\nServer: quern\r\nVary: Origin\r\nContent-Type: application/json\r\n";
    if (!origin_.empty()) head.append("Access-Control-Allow-Origin: ").append(origin_).append("\r\n");
    if (!keep_alive_) head += "Connection: close\r\n";
    head.append("Content-Length: ").append(std::to_string(body.size())).append("\r\n\r\n");
    text->back() = std::move(body);

    std::array<iovec, 2> parts{};
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = {(*text)[i].data(), (*text)[i].size()};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const auto sent = ::sendmsg(stream_.socket().native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return close();
    const auto done = static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
    if (done == text->front().size() + text->back().size()) return after_write(keep_alive_);
    const std::size_t of_head = std::min(done, text->front().size());
    const std::array<asio::const_buffer, 2> rest{asio::buffer(text->front()) + of_head,
                                                 asio::buffer(text->back()) + (done - of_head)};
    set_deadline(host_.options().write_ms);
    asio::async_write(stream_.socket(), rest,
                      [self = shared_from_this(), text, keep = keep_alive_](error_code code, std::size_t) {
                          if (code) return self->close();
                          self->after_write(keep);
                      });
}

void HttpSession::cancel_call() {
    if (!call_) return;
    call_->deadline.cancel();
    call_.reset();
}

void HttpSession::look(std::uint64_t now_ms) {
    if (is_closed_) return;
    if (deadline_ms_ != 0 && now_ms >= deadline_ms_) return close();
    if (!call_) return;
    char byte = 0;
    const auto got = ::recv(stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    // More than the request: another one follows, and whether the client is still there shows when it is read.
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
    call_->deadline.cancel();
}

}  // namespace quern::rpc
