// Whose work is done next: hosts take turns, so that one that asks for as much as it may, over as many connections as
// it may have, does not hold up the others. Used by the HTTP and WebSocket servers (which request runs next) and by the
// p2p layer (which content is read from the disk next). Not thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace quern {
inline namespace base {

template <class Work>
class Turns {
public:
    void add(const std::string& host, Work work) {
        waiting_[host].push_back(std::move(work));
        ++size_;
    }
    // The oldest of the host whose turn it is.
    [[nodiscard]] std::optional<Work> next() {
        if (waiting_.empty()) return std::nullopt;
        auto at = waiting_.upper_bound(last_);
        if (at == waiting_.end()) at = waiting_.begin();
        std::optional<Work> work(std::move(at->second.front()));
        at->second.pop_front();
        --size_;
        last_ = at->first;
        if (at->second.empty()) waiting_.erase(at);
        return work;
    }
    [[nodiscard]] bool empty() const { return size_ == 0; }
    [[nodiscard]] std::size_t size() const { return size_; }

private:
    std::map<std::string, std::deque<Work>> waiting_;  // none is empty
    std::string last_;
    std::size_t size_ = 0;
};

}  // namespace base
}  // namespace quern
