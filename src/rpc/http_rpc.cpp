// POST /: a JSON-RPC request is read piece by piece, answered in slices, and given up when its client has gone.
#include <sys/socket.h>

#include "rpc/http_session.h"

namespace quern::rpc {
namespace {

bool is_json_type(std::string_view type) {
    type = type.substr(0, type.find(';'));
    while (type.ends_with(' ')) type.remove_suffix(1);
    return beast::iequals({type.data(), type.size()}, "application/json") ||
           beast::iequals({type.data(), type.size()}, "application/json-rpc");
}

}  // namespace

struct HttpSession::RunningCall {
    RunningCall(std::uint64_t limit_ms, const std::atomic<bool>& stopping)
        : cancellation(std::chrono::milliseconds(limit_ms), &stopping) {}
    Cancellation cancellation;
    std::unique_ptr<Job> job;  // refers to `cancellation`
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
        self->arm(self->host_.options().body_ms);
        self->read_rpc_body();
    };
    if (!expects_continue_) return begin(shared_from_this());
    send_continue([self = shared_from_this(), begin] { begin(self); });
}

// What has arrived counts, not what was announced.
void HttpSession::read_rpc_body() {
    // A request without a body is whole with its header; Beast must not be asked to read on.
    if (rpc_body_->is_done()) return answer_rpc(std::move(rpc_body_->get().body()));
    wire::async_read_some(stream_, buffer_, *rpc_body_, [self = shared_from_this()](error_code code, std::size_t) {
        auto& body = self->rpc_body_->get().body();
        if (!code) {
            self->hold(body.size());
            if (!self->rpc_body_->is_done()) return self->read_rpc_body();
            return self->answer_rpc(std::move(body));
        }
        if (code == wire::error::body_limit)
            return self->reply_error(
                wire::status::payload_too_large, "http.body_too_large",
                "a request may have at most " + std::to_string(self->host_.options().max_body_bytes) + " bytes", true);
        const bool is_http_error = code.category() == wire::make_error_code(wire::error::bad_method).category();
        if (is_http_error && code != wire::error::partial_message && code != wire::error::end_of_stream)
            return self->reply_error(wire::status::bad_request, "http.malformed", code.message(), true);
        self->close();
    });
}

void HttpSession::answer_rpc(std::string body) {
    stream_.expires_never();  // the call has a deadline of its own
    auto call = std::make_shared<RunningCall>(host_.options().call_ms, host_.stopping());
    call->request = body.size();
    call->is_large = body.size() > kSmallRequest;
    call->job = host_.hooks().rpc(std::move(body), CallContext{caller_, nullptr, &call->cancellation});
    call_ = call;
    watch_client(call);
    if (!call->is_large) return run_call(call, false);
    host_.begin_large_job({client_, [self = shared_from_this(), call] { self->run_call(call, true); },
                           [self = shared_from_this(), call] {
                               call->is_large = false;
                               if (self->is_closed_) return;
                               self->cancel_call();
                               self->busy();
                           }});
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
    Reply answer;
    answer.content_type = "application/json";
    auto text = call->job->take_answer();
    call->job.reset();
    if (text)
        answer.body = std::move(*text);
    else
        answer.status = wire::status::no_content;
    reply(std::move(answer));
}

// Also ends the watch over the client.
void HttpSession::cancel_call() {
    if (!call_) return;
    call_->cancellation.cancel();
    call_.reset();
    error_code ignored;
    if (stream_.socket().is_open()) stream_.socket().cancel(ignored);
}

void HttpSession::watch_client(const std::shared_ptr<RunningCall>& call) {
    stream_.socket().async_wait(tcp::socket::wait_read, [self = shared_from_this(), call](error_code code) {
        if (code || self->call_ != call) return;
        char byte = 0;
        const auto got = ::recv(self->stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        // More than the request: another one follows, and whether the client is still there shows when it is read.
        if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
        self->call_->cancellation.cancel();
    });
}

}  // namespace quern::rpc
