#include "rpc/http_session.h"

#include <algorithm>
#include <array>
#include <boost/asio/write.hpp>
#include <limits>

namespace quern::rpc {
namespace {

constexpr std::size_t kMaxLinger = 1U << 20;  // bytes read and dropped before a refused connection is closed
constexpr std::uint64_t kLingerMs = 2'000;

bool is_json_type(std::string_view type) {
    type = type.substr(0, type.find(';'));
    while (type.ends_with(' ')) type.remove_suffix(1);
    return beast::iequals({type.data(), type.size()}, "application/json") ||
           beast::iequals({type.data(), type.size()}, "application/json-rpc");
}

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

std::string error_body(std::string_view name, std::string_view message) {
    return json::Value::object({{"error", name}, {"message", message}}).dump() + "\n";
}

}  // namespace

HttpSession::HttpSession(tcp::socket socket, SessionHost& host) : stream_(std::move(socket)), host_(host) {
    error_code ignored;
    stream_.socket().set_option(tcp::no_delay(true), ignored);
}

HttpSession::~HttpSession() { host_.session_ended(); }

void HttpSession::close() {
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.close();
}

std::string_view HttpSession::field(wire::field name) const { return view(header_->get()[name]); }

bool HttpSession::has_body() const {
    return header_->chunked() || (header_->content_length() && *header_->content_length() != 0);
}

void HttpSession::read_header() {
    header_.emplace();
    rpc_body_.reset();
    header_->header_limit(host_.options().max_header_bytes);
    header_->body_limit(std::numeric_limits<std::uint64_t>::max());  // routes check; Boost 1.74 takes none for 0
    origin_.clear();
    keep_alive_ = false;
    is_head_ = false;
    expects_continue_ = false;
    authenticated_ = false;
    arm(host_.options().idle_ms);
    wire::async_read_header(stream_, buffer_, *header_, [self = shared_from_this()](error_code code, std::size_t) {
        if (!code) return self->route();
        if (code == wire::error::header_limit)
            return self->reply_error(wire::status::request_header_fields_too_large, "http.header_too_large",
                                     "the request's header is too large", true);
        const bool is_http_error = code.category() == wire::make_error_code(wire::error::bad_method).category();
        if (is_http_error && code != wire::error::end_of_stream && code != wire::error::partial_message)
            return self->reply_error(wire::status::bad_request, "http.malformed", code.message(), true);
        self->close();
    });
}

void HttpSession::route() {
    const auto& request = header_->get();
    keep_alive_ = request.keep_alive();
    is_head_ = request.method() == wire::verb::head;
    expects_continue_ = beast::iequals(request[wire::field::expect], "100-continue");
    authenticated_ = host_.is_authorized(field(wire::field::authorization));
    const std::string_view origin = field(wire::field::origin);
    if (!origin.empty()) {
        const auto& allowed = host_.options().cors_origins;
        const bool is_allowed = std::any_of(allowed.begin(), allowed.end(),
                                            [&](const std::string& entry) { return entry == "*" || entry == origin; });
        if (!is_allowed)
            return reply_error(wire::status::forbidden, "http.origin_not_allowed",
                               "this origin is not in the node's list of allowed origins", has_body());
        origin_ = std::string(origin);
    }
    const wire::verb verb = request.method();
    if (verb == wire::verb::options) {
        Reply preflight;
        preflight.status = wire::status::no_content;
        preflight.headers = {{wire::field::access_control_allow_methods, "GET, HEAD, POST, PUT, OPTIONS"},
                             {wire::field::access_control_allow_headers, "Content-Type, Range, Authorization"},
                             {wire::field::access_control_expose_headers, "Content-Range, Content-Length"},
                             {wire::field::access_control_max_age, "600"},
                             {wire::field::allow, "GET, HEAD, POST, PUT, OPTIONS"}};
        preflight.close = has_body();
        return reply(std::move(preflight));
    }
    const std::string target(view(request.target()));
    const std::string_view path = std::string_view(target).substr(0, target.find('?'));
    constexpr std::string_view kContent = "/content/";
    if (path == "/") return route_root(verb);
    if (path == "/health") return route_health(verb);
    if (path.starts_with(kContent)) return route_content(verb, path.substr(kContent.size()));
    reply_error(wire::status::not_found, "http.not_found", "JSON-RPC is at /, contents are at /content/<id>",
                has_body());
}

void HttpSession::route_root(wire::verb verb) {
    if (verb == wire::verb::post) return read_rpc();
    if (verb != wire::verb::get && verb != wire::verb::head)
        return reply_error(wire::status::method_not_allowed, "http.method_not_allowed", "use POST", has_body());
    if (has_body()) return reply_error(wire::status::bad_request, "http.unexpected_body", "GET has no body", true);
    answer_with([home = host_.hooks().home] {
        Reply text;
        text.body = home ? home() : std::string();
        return text;
    });
}

void HttpSession::route_health(wire::verb verb) {
    if ((verb != wire::verb::get && verb != wire::verb::head) || has_body())
        return reply_error(wire::status::method_not_allowed, "http.method_not_allowed", "use GET", has_body());
    answer_with([health = host_.hooks().health] {
        Reply report;
        const json::Value value = health ? health() : json::Value::object({{"ok", true}});
        const json::Value* ok = value.find("ok");
        if (ok != nullptr && *ok == json::Value(false)) report.status = wire::status::service_unavailable;
        report.content_type = "application/json";
        report.body = value.dump() + "\n";
        return report;
    });
}

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
    if (!expects_continue_) return read_rpc_body();
    send_continue([self = shared_from_this()] { self->read_rpc_body(); });
}

void HttpSession::read_rpc_body() {
    rpc_body_.emplace(std::move(*header_));
    rpc_body_->body_limit(host_.options().max_body_bytes);
    arm(host_.options().body_ms);
    wire::async_read(stream_, buffer_, *rpc_body_, [self = shared_from_this()](error_code code, std::size_t) {
        if (!code) return self->answer_rpc(std::move(self->rpc_body_->get().body()));
        if (code == wire::error::body_limit)
            return self->reply_error(
                wire::status::payload_too_large, "http.body_too_large",
                "a request may have at most " + std::to_string(self->host_.options().max_body_bytes) + " bytes", true);
        const bool is_http_error = code.category() == wire::make_error_code(wire::error::bad_method).category();
        if (is_http_error && code != wire::error::partial_message)
            return self->reply_error(wire::status::bad_request, "http.malformed", code.message(), true);
        self->close();
    });
}

void HttpSession::answer_rpc(std::string body) {
    answer_with([rpc = host_.hooks().rpc, body = std::move(body), context = CallContext{authenticated_}] {
        Reply answer;
        answer.content_type = "application/json";
        auto text = rpc(body, context);
        if (text)
            answer.body = std::move(*text);
        else
            answer.status = wire::status::no_content;
        return answer;
    });
}

void HttpSession::answer_with(std::function<Reply()> make) {
    auto made = std::make_shared<Reply>();
    const bool queued = host_.enqueue(
        false, [made, make = std::move(make)] { *made = make(); },
        [self = shared_from_this(), made] { self->reply(std::move(*made)); });
    if (!queued) busy();
}

void HttpSession::busy() {
    reply_error(wire::status::service_unavailable, "http.busy", "too many requests wait; try again", false);
}

void HttpSession::send_continue(std::function<void()> then) {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    arm(host_.options().write_ms);
    asio::async_write(stream_, asio::buffer(kContinue.data(), kContinue.size()),
                      [self = shared_from_this(), then = std::move(then)](error_code code, std::size_t) {
                          if (code) return self->close();
                          then();
                      });
}

template <class Message>
void HttpSession::add_common_headers(Message& message) {
    message.set(wire::field::server, "quern");
    message.set(wire::field::vary, "Origin");
    if (!origin_.empty()) message.set(wire::field::access_control_allow_origin, origin_);
}

void HttpSession::reply(Reply reply) {
    const bool keep = keep_alive_ && !reply.close;
    const auto send = [&](auto response) {
        response->version(11);
        response->result(reply.status);
        add_common_headers(*response);
        if (!reply.content_type.empty() && reply.status != wire::status::no_content)
            response->set(wire::field::content_type, reply.content_type);
        for (const auto& [name, value] : reply.headers) response->set(name, value);
        response->keep_alive(keep);
        arm(host_.options().write_ms);
        wire::async_write(stream_, *response,
                          [self = shared_from_this(), response, keep](error_code code, std::size_t) {
                              if (code) return self->close();
                              self->after_write(keep);
                          });
    };
    if (is_head_) {
        auto response = std::make_shared<wire::response<wire::empty_body>>();
        response->content_length(reply.body.size());
        return send(std::move(response));
    }
    auto response = std::make_shared<wire::response<wire::string_body>>();
    response->result(reply.status);  // decides whether an empty body has a length
    response->body() = std::move(reply.body);
    response->prepare_payload();
    send(std::move(response));
}

void HttpSession::reply_error(wire::status status, std::string_view name, std::string message, bool close) {
    Reply refusal;
    refusal.status = status;
    refusal.content_type = "application/json";
    refusal.body = error_body(name, message);
    refusal.close = close;
    if (status == wire::status::service_unavailable) refusal.headers.push_back({wire::field::retry_after, "1"});
    if (status == wire::status::method_not_allowed)
        refusal.headers.push_back({wire::field::allow, "GET, HEAD, POST, PUT, OPTIONS"});
    reply(std::move(refusal));
}

void HttpSession::after_write(bool keep_alive) {
    if (keep_alive) return read_header();
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    lingered_ = 0;
    linger();
}

// Closing a socket with unread bytes resets it, and the client would lose the answer that says why.
void HttpSession::linger() {
    buffer_.clear();
    arm(kLingerMs);
    stream_.async_read_some(buffer_.prepare(kContentPiece),
                            [self = shared_from_this()](error_code code, std::size_t size) {
                                self->lingered_ += size;
                                if (code || self->lingered_ > kMaxLinger) return self->close();
                                self->linger();
                            });
}

}  // namespace quern::rpc
