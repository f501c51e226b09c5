#include "bench/shaped_link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

namespace quern::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kIdlePollMs = 20;

class File {
public:
    explicit File(int number = -1) : number_(number) {}
    ~File() { reset(); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    void reset(int number = -1) {
        if (number_ >= 0) ::close(number_);
        number_ = number;
    }
    [[nodiscard]] int get() const { return number_; }

private:
    int number_;
};

tl::unexpected<Error> failed(const char* what) {
    const int code = errno;
    return fail(code == EPERM || code == EACCES ? "link.not_permitted" : "link.failed",
                std::string(what) + ": " + std::strerror(code));
}

ifreq request_for(const char* device) {
    ifreq request{};
    std::strncpy(request.ifr_name, device, IFNAMSIZ - 1);
    return request;
}

Status set_up(int socket, const char* device) {
    ifreq request = request_for(device);
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (::ioctl(socket, SIOCSIFFLAGS, &request) != 0) return failed(device);
    return {};
}

Status set_address(int socket, unsigned long what, const std::string& address) {
    ifreq request = request_for("link");
    auto* in = reinterpret_cast<sockaddr_in*>(&request.ifr_addr);
    in->sin_family = AF_INET;
    ::inet_pton(AF_INET, address.c_str(), &in->sin_addr);
    if (::ioctl(socket, what, &request) != 0) return failed("address");
    return {};
}

// Moves the calling thread into a namespace of its own with one device, whose packets come out of `device`.
Status make_side(int side, int packet_bytes, File& space, File& device) {
    if (::unshare(CLONE_NEWNET) != 0) return failed("unshare");
    space.reset(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    if (space.get() < 0) return failed("namespace");
    device.reset(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (device.get() < 0) return failed("/dev/net/tun");
    ifreq request = request_for("link");
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    if (::ioctl(device.get(), TUNSETIFF, &request) != 0) return failed("TUNSETIFF");
    const File socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket.get() < 0) return failed("socket");
    QUERN_CHECK(set_up(socket.get(), "lo"));
    QUERN_CHECK(set_address(socket.get(), SIOCSIFADDR, ShapedLink::address(side)));
    QUERN_CHECK(set_address(socket.get(), SIOCSIFNETMASK, "255.255.255.0"));
    ifreq packets = request_for("link");
    packets.ifr_mtu = packet_bytes;
    if (::ioctl(socket.get(), SIOCSIFMTU, &packets) != 0) return failed("SIOCSIFMTU");
    return set_up(socket.get(), "link");
}

struct Packet {
    Clock::time_point due;
    std::vector<char> bytes;
};

// One direction of the cable.
struct Direction {
    int in = -1;
    int out = -1;
    Clock::time_point free_at;  // when the sender's side has sent all that waits
    std::deque<Packet> under_way;
};

}  // namespace

struct ShapedLink::Impl {
    LinkShape shape;
    std::array<File, 2> spaces;
    std::array<File, 2> devices;
    std::atomic<bool> stop{false};
    std::thread cable;

    void take(Direction& direction, Clock::time_point now) const {
        std::array<char, kMaxPacket> buffer;
        while (true) {
            const ssize_t got = ::read(direction.in, buffer.data(), buffer.size());
            if (got <= 0) return;
            const auto ms = [](double value) {
                return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(value));
            };
            const auto start = std::max(now, direction.free_at);
            if (start - now > ms(shape.queue_ms)) continue;  // the queue is full
            direction.free_at = start + ms(static_cast<double>(got) * 8 / (shape.megabits * 1e3));
            direction.under_way.push_back(
                {direction.free_at + ms(shape.one_way_ms), {buffer.begin(), buffer.begin() + got}});
        }
    }
    static void give(Direction& direction, Clock::time_point now) {
        while (!direction.under_way.empty() && direction.under_way.front().due <= now) {
            const auto& bytes = direction.under_way.front().bytes;
            (void)!::write(direction.out, bytes.data(), bytes.size());
            direction.under_way.pop_front();
        }
    }
    void run() {
        std::array<Direction, 2> ways;
        for (std::size_t i = 0; i < 2; ++i) {
            ways[i].in = devices[i].get();
            ways[i].out = devices[1 - i].get();
        }
        while (!stop) {
            const auto now = Clock::now();
            auto wait = std::chrono::nanoseconds(std::chrono::milliseconds(kIdlePollMs));
            for (Direction& way : ways) {
                take(way, now);
                give(way, now);
                if (!way.under_way.empty())
                    wait = std::min(wait, std::chrono::nanoseconds(way.under_way.front().due - now));
            }
            std::array<pollfd, 2> watched = {pollfd{ways[0].in, POLLIN, 0}, pollfd{ways[1].in, POLLIN, 0}};
            const timespec limit{0, std::max<long>(static_cast<long>(wait.count()), 0)};
            ::ppoll(watched.data(), watched.size(), &limit, nullptr);
        }
    }
};

ShapedLink::ShapedLink(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ShapedLink::~ShapedLink() {
    impl_->stop = true;
    if (impl_->cable.joinable()) impl_->cable.join();
}

Expected<std::unique_ptr<ShapedLink>> ShapedLink::make(const LinkShape& shape) {
    auto impl = std::make_unique<Impl>();
    impl->shape = shape;
    for (int side = 0; side < 2; ++side) {
        Status status;
        const auto at = static_cast<std::size_t>(side);
        std::thread([&] { status = make_side(side, shape.packet_bytes, impl->spaces[at], impl->devices[at]); }).join();
        QUERN_CHECK(status);
    }
    impl->cable = std::thread([&link = *impl] { link.run(); });
    return std::unique_ptr<ShapedLink>(new ShapedLink(std::move(impl)));
}

void ShapedLink::run_in(int side, const std::function<void()>& function) const {
    std::thread([&] {
        if (::setns(impl_->spaces[static_cast<std::size_t>(side)].get(), CLONE_NEWNET) == 0) function();
    }).join();
}

}  // namespace quern::bench
