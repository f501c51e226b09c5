// Whose content is read from the disk next: hosts take turns, so that one that asks for as much as it may, with as many
// keys as it may have, does not hold up the others. Pure; one thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace quern::p2p::content_exchange {

class ReadTurns {
public:
    using Read = std::function<void()>;

    void add(const std::string& host, Read read) {
        waiting_[host].push_back(std::move(read));
        ++size_;
    }
    // The oldest of the host whose turn it is.
    [[nodiscard]] std::optional<Read> next() {
        if (waiting_.empty()) return std::nullopt;
        auto at = waiting_.upper_bound(last_);
        if (at == waiting_.end()) at = waiting_.begin();
        Read read = std::move(at->second.front());
        at->second.pop_front();
        --size_;
        last_ = at->first;
        if (at->second.empty()) waiting_.erase(at);
        return read;
    }
    [[nodiscard]] std::size_t size() const { return size_; }

private:
    std::map<std::string, std::deque<Read>> waiting_;  // none is empty
    std::string last_;
    std::size_t size_ = 0;
};

}  // namespace quern::p2p::content_exchange
