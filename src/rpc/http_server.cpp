#include "rpc/http_server.h"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <map>
#include <set>
#include <thread>

#include "base/eviction.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/thread_priority.h"
#include "base/turns.h"
#include "rpc/http_session.h"

namespace quern::rpc {
namespace {

constexpr std::chrono::milliseconds kAcceptPause{100};  // after accept failed, e.g. for want of descriptors
constexpr std::chrono::milliseconds kLook{100};         // between two looks at all sessions
// Under load the IO thread is woken for several answers, but none waits longer than this for the others.
constexpr std::size_t kAnswersTogether = 4;
constexpr std::chrono::milliseconds kLongestWait{2};

}  // namespace

struct HttpServer::Impl final : SessionHost {
    Impl(HttpOptions server_options, HttpHooks server_hooks)
        : settings(std::move(server_options)),
          callbacks(std::move(server_hooks)),
          upload_places(settings.uploads),
          acceptor(io),
          pause(io),
          next_look(io),
          next_fetch(io),
          large_jobs(settings.max_large_jobs, settings.max_queued),
          workers(settings.threads == 0 ? 1 : settings.threads) {
        if (!settings.gate) settings.gate = *Gate::make({});
    }

    HttpOptions settings;
    HttpHooks callbacks;
    std::uint16_t bound_port = 0;
    std::atomic<std::size_t> live{0};
    std::atomic<std::ptrdiff_t> held{0};
    std::atomic<bool> stop_begun{false};
    UploadPlaces upload_places;
    asio::io_context io{1};
    tcp::acceptor acceptor;
    asio::steady_timer pause;
    asio::steady_timer next_look;
    asio::steady_timer next_fetch;
    bool fetches = false;  // next_fetch runs. IO thread only
    struct Waiting {
        std::function<void()> work;
        std::function<void()> done;
    };
    Mutex jobs_mutex;
    Turns<Waiting> waiting QUERN_GUARDED_BY(jobs_mutex);     // bounded by `queued`
    std::size_t answering QUERN_GUARDED_BY(jobs_mutex) = 0;  // threads that take from `waiting`
    std::vector<std::function<void()>> finished QUERN_GUARDED_BY(jobs_mutex);
    bool io_told QUERN_GUARDED_BY(jobs_mutex) = false;  // of what is finished
    // IO thread only.
    std::size_t queued = 0;
    std::set<std::weak_ptr<HttpSession>, std::owner_less<std::weak_ptr<HttpSession>>> sessions;
    LargeJobs large_jobs;
    std::map<std::string, std::size_t> queued_by_host;
    asio::thread_pool workers;  // destroyed before the io_context that its tasks refer to
    std::thread io_thread;

    const HttpOptions& options() const override { return settings; }
    const HttpHooks& hooks() const override { return callbacks; }
    const Gate& gate() const override { return *settings.gate; }
    const std::atomic<bool>& stopping() const override { return stop_begun; }
    void session_ended() override { --live; }

    bool enqueue(const std::string& client, bool admitted, std::function<void()> work,
                 std::function<void()> done) override {
        const auto host = queued_by_host.try_emplace(client, 0).first;
        // Of a full queue each host has an equal part. A connection has one place at most, which bounds the whole.
        if (!admitted && queued >= settings.max_queued &&
            host->second >= std::max<std::size_t>(settings.max_queued / queued_by_host.size(), 1)) {
            leave_queue(host);
            return false;
        }
        ++queued;
        ++host->second;
        auto leave = [this, client, done = std::move(done)] {
            const auto place = queued_by_host.find(client);
            --queued;
            --place->second;
            leave_queue(place);
            done();
        };
        bool begin = false;
        {
            const MutexLock lock(jobs_mutex);
            waiting.add(client, {std::move(work), std::move(leave)});
            begin = answering < std::max(settings.threads, 1U);
            if (begin) ++answering;
        }
        if (begin) asio::post(workers, [this] { answer(); });
        fetch_soon();
        return true;
    }

    // On an answering thread: as long as something waits.
    void answer() {
        stand_back();
        for (;;) {
            std::optional<Waiting> job;
            {
                const MutexLock lock(jobs_mutex);
                job = waiting.next();
                if (!job) {
                    --answering;
                    return;
                }
            }
            if (!stop_begun) job->work();
            bool tell = false;
            {
                const MutexLock lock(jobs_mutex);
                finished.push_back(std::move(job->done));
                tell = !io_told && (waiting.empty() || finished.size() >= kAnswersTogether);
                io_told = io_told || tell;
            }
            if (tell) asio::post(io, [this] { fetch(); });
        }
    }
    // On the IO thread.
    void fetch() {
        std::vector<std::function<void()>> done;
        {
            const MutexLock lock(jobs_mutex);
            done.swap(finished);
            io_told = false;
        }
        for (const auto& each : done) each();
    }
    // The last resort of what is finished while its thread is at something long.
    void fetch_soon() {
        if (fetches || stop_begun) return;
        fetches = true;
        next_fetch.expires_after(kLongestWait);
        next_fetch.async_wait([this](error_code) {
            fetches = false;
            fetch();
            if (queued != 0) fetch_soon();
        });
    }

    void leave_queue(std::map<std::string, std::size_t>::iterator host) {
        if (host->second == 0) queued_by_host.erase(host);
    }

    void begin_large_job(LargeJobs::Request request) override { call(large_jobs.ask(std::move(request))); }
    void end_large_job(const std::string& client) override { call(large_jobs.ended(client)); }
    void forget_large_job(const std::string& client, const void* owner) override {
        (void)large_jobs.forget(client, owner);
    }
    static void call(const std::function<void()>& what) {
        if (what) what();
    }

    UploadPlaces& uploads() override { return upload_places; }

    void hold(std::ptrdiff_t bytes) override {
        if ((held += bytes) <= static_cast<std::ptrdiff_t>(settings.max_held_bytes) || bytes < 0) return;
        std::vector<Holder> holders;
        std::vector<std::shared_ptr<HttpSession>> same_order;
        for (const auto& entry : sessions) {
            auto session = entry.lock();
            if (!session) continue;
            holders.push_back({session->client(), session->held()});
            same_order.push_back(std::move(session));
        }
        const auto heaviest = choose_heaviest(holders);
        if (!heaviest) return;
        const auto& most = same_order[*heaviest];
        log::warning(log::Category::rpc, "memory for requests is used up, closing client={} bytes={}", most->client(),
                     most->held());
        most->close();
    }

    Status listen() {
        error_code code;
        const auto address = asio::ip::make_address(settings.bind, code);
        if (code) return fail("rpc.bad_bind_address", settings.bind);
        const tcp::endpoint endpoint(address, settings.port);
        acceptor.open(endpoint.protocol(), code);
        if (!code) acceptor.set_option(asio::socket_base::reuse_address(true), code);
        if (!code) acceptor.bind(endpoint, code);
        if (!code) acceptor.listen(asio::socket_base::max_listen_connections, code);
        if (code)
            return fail("rpc.cannot_listen",
                        settings.bind + ":" + std::to_string(settings.port) + ": " + code.message());
        bound_port = acceptor.local_endpoint(code).port();
        return {};
    }

    void accept() {
        acceptor.async_accept([this](error_code code, tcp::socket socket) {
            if (code == asio::error::operation_aborted || !acceptor.is_open()) return;
            if (code) {
                log::warning(log::Category::rpc, "cannot accept error={}", code.message());
                pause.expires_after(kAcceptPause);
                pause.async_wait([this](error_code stopped) {
                    if (!stopped) accept();
                });
                return;
            }
            begin(std::move(socket));
            accept();
        });
    }

    void look() {
        next_look.expires_after(kLook);
        next_look.async_wait([this](error_code stopped) {
            if (stopped) return;
            const std::uint64_t now = steady_ms();
            for (const auto& entry : sessions)
                if (const auto session = entry.lock()) session->look(now);
            upload_places.look(now);
            look();
        });
    }

    void begin(tcp::socket socket) {
        std::erase_if(sessions, [](const auto& other) { return other.expired(); });
        if (live >= settings.max_connections && !make_room(socket)) return;
        ++live;
        auto session = std::make_shared<HttpSession>(std::move(socket), *this);
        sessions.insert(session);
        session->start();
    }

    bool make_room(const tcp::socket& newcomer) {
        error_code code;
        const auto remote = newcomer.remote_endpoint(code);
        const std::string host = code ? std::string() : host_of(remote.address().to_string());
        std::vector<Occupant> occupants;
        std::vector<std::shared_ptr<HttpSession>> same_order;
        for (const auto& entry : sessions) {
            auto session = entry.lock();
            if (!session || session->is_closed()) continue;
            occupants.push_back({session->client(), session->is_idle(), session->since_ms()});
            same_order.push_back(std::move(session));
        }
        // Those that are closed have their last operation before them.
        if (same_order.size() < settings.max_connections) return true;
        const auto victim = choose_victim(occupants, host);
        if (victim) same_order[*victim]->close();
        return victim.has_value();
    }

    void stop() {
        if (!io_thread.joinable()) return;
        stop_begun = true;  // running calls see it
        asio::post(io, [this] {
            error_code ignored;
            acceptor.close(ignored);
            pause.cancel();
            next_look.cancel();
            for (const auto& entry : sessions)
                if (const auto session = entry.lock()) session->close();
        });
        workers.join();  // running calls end; their answers find closed connections
        asio::post(io, [this] {
            fetch();
            io.stop();
        });
        io_thread.join();
    }
};

HttpServer::HttpServer() = default;

HttpServer::~HttpServer() { stop(); }

Expected<std::unique_ptr<HttpServer>> HttpServer::start(HttpOptions options, HttpHooks hooks) {
    std::unique_ptr<HttpServer> server(new HttpServer());
    server->impl_ = std::make_unique<Impl>(std::move(options), std::move(hooks));
    QUERN_CHECK(server->impl_->listen());
    Impl& impl = *server->impl_;
    impl.accept();
    impl.look();
    impl.io_thread = std::thread([&impl] { impl.io.run(); });
    log::info(log::Category::rpc, "listening address={} port={} threads={}", impl.settings.bind, impl.bound_port,
              impl.settings.threads);
    return server;
}

std::uint16_t HttpServer::port() const { return impl_->bound_port; }
std::size_t HttpServer::connections() const { return impl_->live; }
std::size_t HttpServer::held_bytes() const {
    return static_cast<std::size_t>(std::max<std::ptrdiff_t>(impl_->held, 0));
}
void HttpServer::stop() { impl_->stop(); }

}  // namespace quern::rpc
