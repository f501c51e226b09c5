// One connection of the HTTP server: reads requests one after the other, hands them to the answering threads, writes
// the responses. Private to http_server.cpp and http_session*.cpp (it includes Boost.Beast). Everything but the work
// functions runs on the server's one IO thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include <chrono>

#include "rpc/http_server.h"

namespace quern::rpc {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace wire = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

// What a session needs of its server.
class SessionHost {
public:
    virtual ~SessionHost() = default;
    [[nodiscard]] virtual const HttpOptions& options() const = 0;
    [[nodiscard]] virtual const HttpHooks& hooks() const = 0;
    // Runs `work` on an answering thread, then `done` on the IO thread; false when the queue is full. The later parts
    // of a transfer that was let in (`admitted`) always get their turn.
    [[nodiscard]] virtual bool enqueue(bool admitted, std::function<void()> work, std::function<void()> done) = 0;
    [[nodiscard]] virtual bool is_authorized(std::string_view authorization) const = 0;
    virtual void session_ended() = 0;
};

class HttpSession : public std::enable_shared_from_this<HttpSession> {
public:
    HttpSession(tcp::socket socket, SessionHost& host);
    ~HttpSession();
    HttpSession(const HttpSession&) = delete;
    HttpSession& operator=(const HttpSession&) = delete;

    void start() { read_header(); }
    void close();

private:
    struct Download;
    struct Upload;
    struct Reply {
        wire::status status = wire::status::ok;
        std::string content_type = "text/plain; charset=utf-8";
        std::string body;
        std::vector<std::pair<wire::field, std::string>> headers;
        bool close = false;  // the request's body was not read: the connection cannot go on
    };

    void read_header();
    void route();
    void route_root(wire::verb verb);
    void route_health(wire::verb verb);
    void route_content(wire::verb verb, std::string_view id);
    void read_rpc();
    void read_rpc_body();
    void answer_rpc(std::string body);
    void answer_with(std::function<Reply()> make);
    void begin_download(const Hash32& id);
    void send_download(const Hash32& id, std::uint64_t size, const std::string& range_header);
    void next_piece(const std::shared_ptr<Download>& download);
    void begin_upload(const Hash32& id);
    void read_piece(const std::shared_ptr<Upload>& upload);
    void store_piece(const std::shared_ptr<Upload>& upload);

    // Sends "100 Continue" when the client waits for it, then goes on.
    void send_continue(std::function<void()> then);
    void reply(Reply reply);
    // A JSON body {"error", "message"}; `close` when the request's body was not read.
    void reply_error(wire::status status, std::string_view name, std::string message, bool close);
    void reply_error(const Error& error, bool close);
    void busy();
    void after_write(bool keep_alive);
    void linger();
    template <class Message>
    void add_common_headers(Message& message);
    [[nodiscard]] bool has_body() const;
    [[nodiscard]] std::string_view field(wire::field name) const;
    void arm(std::uint64_t milliseconds) { stream_.expires_after(std::chrono::milliseconds(milliseconds)); }

    beast::tcp_stream stream_;
    SessionHost& host_;
    beast::flat_buffer buffer_;
    std::optional<wire::request_parser<wire::empty_body>> header_;
    std::optional<wire::request_parser<wire::string_body>> rpc_body_;
    std::string origin_;  // the request's, when it is allowed
    bool keep_alive_ = false;
    bool is_head_ = false;
    bool expects_continue_ = false;
    bool authenticated_ = false;
    std::size_t lingered_ = 0;
};

}  // namespace quern::rpc
