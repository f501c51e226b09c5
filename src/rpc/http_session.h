// One connection of the HTTP server: reads requests one after the other, hands them to the answering threads, writes
// the responses. Private to http_server.cpp, http_session.cpp, http_rpc.cpp and http_content.cpp (it includes
// Boost.Beast). Everything but the work functions runs on the server's one IO thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include <atomic>
#include <chrono>

#include "rpc/call_deadline.h"
#include "rpc/http_server.h"
#include "rpc/large_jobs.h"

namespace quern::rpc {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace wire = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

// What a session needs of its server. On the IO thread.
class SessionHost {
public:
    virtual ~SessionHost() = default;
    [[nodiscard]] virtual const HttpOptions& options() const = 0;
    [[nodiscard]] virtual const HttpHooks& hooks() const = 0;
    [[nodiscard]] virtual const Gate& gate() const = 0;
    // Runs `work` on an answering thread, then `done` on the IO thread; false when the queue is full and the client's
    // host has its share of it. The later parts of what was let in (`admitted`) always get their turn. When the server
    // stops `work` may be left out.
    [[nodiscard]] virtual bool enqueue(const std::string& client, bool admitted, std::function<void()> work,
                                       std::function<void()> done) = 0;
    // Calls `begin` or `refuse`, at once or when a large job has ended with end_large_job().
    virtual void begin_large_job(LargeJobs::Request request) = 0;
    virtual void end_large_job(const std::string& client) = 0;
    [[nodiscard]] virtual UploadPlaces& uploads() = 0;
    // Neither begins nor refuses what waits of this owner.
    virtual void forget_large_job(const std::string& client, const void* owner) = 0;
    // Counts bytes that this session keeps, or keeps no longer; may close one of the host that keeps most.
    virtual void hold(std::ptrdiff_t bytes) = 0;
    // True once the server stops.
    [[nodiscard]] virtual const std::atomic<bool>& stopping() const = 0;
    virtual void session_ended() = 0;
};

// Milliseconds of a clock that only goes forward.
[[nodiscard]] std::uint64_t steady_ms();

class HttpSession : public std::enable_shared_from_this<HttpSession> {
public:
    HttpSession(tcp::socket socket, SessionHost& host);
    ~HttpSession();
    HttpSession(const HttpSession&) = delete;
    HttpSession& operator=(const HttpSession&) = delete;

    void start() { read_header(); }
    void close();
    // Every now and then: closes what is overdue, and ends the call of a client that has hung up.
    void look(std::uint64_t now_ms);
    // For base/eviction.h.
    [[nodiscard]] const std::string& client() const { return client_; }
    [[nodiscard]] bool is_idle() const { return is_idle_; }
    [[nodiscard]] bool is_closed() const { return is_closed_; }
    [[nodiscard]] std::uint64_t since_ms() const { return since_ms_; }
    [[nodiscard]] std::size_t held() const { return held_; }

private:
    struct Download;
    struct Upload;
    struct RunningCall;
    struct Reply {
        wire::status status = wire::status::ok;
        std::string content_type = "text/plain; charset=utf-8";
        std::string body;
        std::vector<std::pair<wire::field, std::string>> headers;
        bool close = false;  // the request's body was not read: the connection cannot go on
    };

    void read_header();
    void take_header();
    // Receives what there is into the buffer, then goes on.
    void receive(void (HttpSession::*then)());
    void route();
    void route_by_path();
    void upgrade();
    void refuse_credentials();
    void route_root(wire::verb verb);
    void route_health(wire::verb verb);
    void route_content(wire::verb verb, std::string_view id);
    void read_rpc();
    void take_rpc_body();
    void refuse_rpc_body(error_code code);
    void answer_rpc(std::string body);
    void run_call(const std::shared_ptr<RunningCall>& call, bool admitted);
    void finish_call(const std::shared_ptr<RunningCall>& call);
    void cancel_call();
    void send_answer(std::string body);
    void answer_with(std::function<Reply()> make);
    void begin_download(const Hash32& id, bool leaves);
    void send_download(const Hash32& id, bool leaves, std::uint64_t size, const std::string& range_header);
    void next_piece(const std::shared_ptr<Download>& download);
    void send_shards(const Hash32& id);
    void begin_upload(const Hash32& id, bool shards);
    void take_place(const std::shared_ptr<Upload>& upload);
    void read_piece(const std::shared_ptr<Upload>& upload);
    void read_more(const std::shared_ptr<Upload>& upload);
    void end_upload(const std::shared_ptr<Upload>& upload, const Error& why);
    void drop_upload(const std::shared_ptr<Upload>& upload);
    void store_piece(const std::shared_ptr<Upload>& upload);

    // Sends "100 Continue" when the client waits for it, then goes on.
    void send_continue(std::function<void()> then);
    void reply(Reply reply);
    // A JSON body {"error", "message"}; `close` when the request's body was not read.
    void reply_error(wire::status status, std::string_view name, std::string message, bool close);
    void reply_error(const Error& error, bool close);
    void busy();
    void after_write(bool keep_alive);
    void hold(std::size_t bytes);  // from now on, instead of what it was
    void linger();
    template <class Message>
    void add_common_headers(Message& message);
    [[nodiscard]] bool has_body() const;
    [[nodiscard]] bool has_unknown_coding() const;
    [[nodiscard]] std::string_view field(wire::field name) const;
    // The limit of the next operation on `stream_`.
    void arm(std::uint64_t milliseconds) { stream_.expires_after(std::chrono::milliseconds(milliseconds)); }
    // The limit of operations on its socket, which every JSON-RPC request has three of: look() keeps it, as a timer of
    // Beast's costs as much as the operation. 0: none.
    void set_deadline(std::uint64_t milliseconds) { deadline_ms_ = milliseconds == 0 ? 0 : steady_ms() + milliseconds; }

    beast::tcp_stream stream_;
    SessionHost& host_;
    std::string client_;  // host_of() of the other side's address
    bool is_idle_ = true;
    bool is_closed_ = false;  // its last operations have still to end
    std::uint64_t since_ms_ = 0;
    std::uint64_t deadline_ms_ = 0;
    std::size_t held_ = 0;
    asio::steady_timer delay_;  // of answers to wrong credentials
    beast::flat_buffer buffer_{kMaxBuffered};
    std::optional<wire::request_parser<wire::empty_body>> header_;
    std::optional<wire::request_parser<wire::string_body>> rpc_body_;
    std::string origin_;  // the request's, when it is allowed
    bool keep_alive_ = false;
    bool is_head_ = false;
    bool expects_continue_ = false;
    Caller caller_;
    std::shared_ptr<RunningCall> call_;
    std::size_t lingered_ = 0;
};

}  // namespace quern::rpc
