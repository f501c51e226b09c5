#include "rpc/http_session.h"

#include <algorithm>
#include <array>
#include <boost/asio/write.hpp>
#include <limits>
#include <sstream>

#include "base/eviction.h"

namespace quern::rpc {
namespace {

constexpr std::size_t kMaxLinger = 1U << 20;  // bytes read and dropped before a refused connection is closed
constexpr std::uint64_t kLingerMs = 2'000;    // for all of them together
constexpr std::size_t kReceived = 64U << 10;  // at once

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

bool wants_upgrade(const wire::request<wire::empty_body>& request) {
    return request.method() == wire::verb::get &&
           wire::token_list(request[wire::field::connection]).exists("upgrade") &&
           wire::token_list(request[wire::field::upgrade]).exists("websocket");
}

std::string error_body(std::string_view name, std::string_view message) {
    return json::Value::object({{"error", name}, {"message", message}}).dump() + "\n";
}

}  // namespace

std::uint64_t steady_ms() {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

HttpSession::HttpSession(tcp::socket socket, SessionHost& host)
    : stream_(std::move(socket)), host_(host), since_ms_(steady_ms()), delay_(stream_.get_executor()) {
    error_code ignored;
    stream_.socket().set_option(tcp::no_delay(true), ignored);
    if (const auto remote = stream_.socket().remote_endpoint(ignored); !ignored)
        client_ = host_of(remote.address().to_string());
}

HttpSession::~HttpSession() {
    hold(0);
    host_.session_ended();
}

void HttpSession::hold(std::size_t bytes) {
    if (is_closed_) bytes = 0;
    const auto more = static_cast<std::ptrdiff_t>(bytes) - static_cast<std::ptrdiff_t>(held_);
    held_ = bytes;
    if (more != 0) host_.hold(more);
}

void HttpSession::close() {
    error_code ignored;
    is_closed_ = true;
    delay_.cancel();
    cancel_call();
    host_.forget_large_job(client_, this);
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.close();
    hold(0);  // what ends at once must not be taken for the one that holds most, again and again
}

std::string_view HttpSession::field(wire::field name) const { return view(header_->get()[name]); }

bool HttpSession::has_body() const {
    return header_->chunked() || (header_->content_length() && *header_->content_length() != 0);
}

// A body in such a coding has no end that we could find: what it holds would be taken for the next request.
bool HttpSession::has_unknown_coding() const {
    const auto count = header_->get().count(wire::field::transfer_encoding);
    if (count == 0) return false;
    return count > 1 || !header_->chunked() ||
           !beast::iequals(header_->get()[wire::field::transfer_encoding], "chunked");
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
    caller_ = {};
    is_idle_ = true;
    since_ms_ = steady_ms();
    hold(0);
    set_deadline(host_.options().idle_ms);
    take_header();
}

// What is there already comes first: a client need not wait for an answer to send the next request.
void HttpSession::take_header() {
    if (buffer_.size() != 0) {
        error_code code;
        buffer_.consume(header_->put(buffer_.data(), code));
        if (code == wire::error::header_limit)
            return reply_error(wire::status::request_header_fields_too_large, "http.header_too_large",
                               "the request's header is too large", true);
        if (code && code != wire::error::need_more)
            return reply_error(wire::status::bad_request, "http.malformed", code.message(), true);
        if (header_->is_header_done()) return route();
    }
    receive(&HttpSession::take_header);
}

void HttpSession::receive(void (HttpSession::*then)()) {
    const std::size_t room = buffer_.max_size() - buffer_.size();
    if (room == 0) return close();
    stream_.socket().async_read_some(buffer_.prepare(std::min(room, kReceived)),
                                     [self = shared_from_this(), then](error_code code, std::size_t size) {
                                         if (code) return self->close();
                                         self->buffer_.commit(size);
                                         (self.get()->*then)();
                                     });
}

void HttpSession::route() {
    const auto& request = header_->get();
    is_idle_ = false;
    since_ms_ = steady_ms();
    set_deadline(0);
    keep_alive_ = request.keep_alive();
    is_head_ = request.method() == wire::verb::head;
    expects_continue_ = beast::iequals(request[wire::field::expect], "100-continue");
    if (request.count(wire::field::host) > 1)
        return reply_error(wire::status::bad_request, "http.malformed", "more than one Host header", true);
    if (has_unknown_coding())
        return reply_error(wire::status::not_implemented, "http.transfer_encoding",
                           "chunked is the only transfer coding here", true);
    // A page whose own name was made to point here (DNS rebinding) sends no Origin that we could refuse.
    if (!host_.gate().admits_host(field(wire::field::host)))
        return reply_error(wire::status::forbidden, "http.host_not_allowed",
                           "this name is not in the node's list of allowed hosts (-rpcallowhost)", true);
    if (wants_upgrade(request)) return upgrade();
    const auto caller = host_.gate().identify(field(wire::field::authorization));
    if (!caller) return refuse_credentials();
    caller_ = *caller;
    route_by_path();
}

// The WebSocket server reads the header again and decides about origin and credentials.
void HttpSession::upgrade() {
    if (!host_.hooks().upgrade)
        return reply_error(wire::status::not_found, "http.no_websocket", "this node serves no WebSocket", true);
    // Its bytes would be read as the first frames, which a proxy in between may not expect.
    if (header_->chunked() || header_->content_length().value_or(0) != 0)
        return reply_error(wire::status::bad_request, "http.malformed", "an upgrade has no body", true);
    std::ostringstream header;
    header << header_->get().base();
    std::string received = header.str();
    const auto rest = buffer_.data();
    received.append(static_cast<const char*>(rest.data()), rest.size());
    error_code code;
    stream_.expires_never();
    const int descriptor = stream_.socket().release(code);
    if (!code) host_.hooks().upgrade(descriptor, std::move(received));
}

// Guessing passwords is slow; nobody else waits meanwhile.
void HttpSession::refuse_credentials() {
    stream_.expires_never();
    delay_.expires_after(std::chrono::milliseconds(kRefusedCredentialsMs));
    delay_.async_wait([self = shared_from_this()](error_code stopped) {
        if (stopped) return;
        self->reply_error(wire::status::unauthorized, "rpc.bad_credentials", "unknown user or wrong password", true);
    });
}

void HttpSession::route_by_path() {
    const auto& request = header_->get();
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

void HttpSession::answer_with(std::function<Reply()> make) {
    auto made = std::make_shared<Reply>();
    const bool queued = host_.enqueue(
        client_, false, [made, make = std::move(make)] { *made = make(); },
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
    hold(reply.body.size());
    if (is_closed_) return;  // it held most
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
    if (status == wire::status::unauthorized)
        refusal.headers.push_back({wire::field::www_authenticate, "Basic realm=\"quern\""});
    if (status == wire::status::method_not_allowed)
        refusal.headers.push_back({wire::field::allow, "GET, HEAD, POST, PUT, OPTIONS"});
    reply(std::move(refusal));
}

void HttpSession::after_write(bool keep_alive) {
    hold(0);
    set_deadline(0);
    if (keep_alive) return read_header();
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    lingered_ = 0;
    is_idle_ = true;
    since_ms_ = steady_ms();
    set_deadline(kLingerMs);
    linger();
}

// Closing a socket with unread bytes resets it, and the client would lose the answer that says why.
void HttpSession::linger() {
    buffer_.clear();
    stream_.socket().async_read_some(buffer_.prepare(kReceived),
                                     [self = shared_from_this()](error_code code, std::size_t size) {
                                         self->lingered_ += size;
                                         if (code || self->lingered_ > kMaxLinger) return self->close();
                                         self->linger();
                                     });
}

}  // namespace quern::rpc
