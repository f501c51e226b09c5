#include "rpc/large_jobs.h"

#include <algorithm>

namespace quern::rpc {

bool LargeJobs::may_begin(const Host& host) const {
    const std::size_t share = std::max<std::size_t>(places_ - 1, 1);
    return running_ < places_ && host.running < share;
}

std::function<void()> LargeJobs::ask(Request request) {
    const auto host = hosts_.try_emplace(request.host).first;
    if (host->second.waiting.empty() && may_begin(host->second)) {
        ++running_;
        ++host->second.running;
        return std::move(request.begin);
    }
    host->second.waiting.push_back({++arrivals_, std::move(request)});
    if (++waiting_ <= max_waiting_) return {};
    auto most = host;  // of equal ones the newcomer
    for (auto at = hosts_.begin(); at != hosts_.end(); ++at)
        if (at->second.waiting.size() > most->second.waiting.size()) most = at;
    return refuse_newest(most);
}

std::function<void()> LargeJobs::ended(const std::string& name) {
    const auto host = hosts_.find(name);
    if (host == hosts_.end() || host->second.running == 0) return {};
    --running_;
    --host->second.running;
    auto next = hosts_.end();
    for (auto at = hosts_.begin(); at != hosts_.end(); ++at) {
        const Host& other = at->second;
        if (other.waiting.empty() || !may_begin(other)) continue;
        const auto rank = [](const Host& one) { return std::pair(one.running, one.waiting.front().number); };
        if (next == hosts_.end() || rank(other) < rank(next->second)) next = at;
    }
    std::function<void()> begin;
    if (next != hosts_.end()) {
        begin = std::move(next->second.waiting.front().request.begin);
        next->second.waiting.pop_front();
        --waiting_;
        ++running_;
        ++next->second.running;
    }
    tidy(host);
    return begin;
}

std::function<void()> LargeJobs::refuse_newest(Hosts::iterator host) {
    auto refuse = std::move(host->second.waiting.back().request.refuse);
    host->second.waiting.pop_back();
    --waiting_;
    tidy(host);
    return refuse;
}

std::list<LargeJobs::Request> LargeJobs::forget(const std::string& name, const void* owner) {
    std::list<Request> dropped;
    const auto host = hosts_.find(name);
    if (host == hosts_.end()) return dropped;
    waiting_ -= std::erase_if(host->second.waiting, [&](Waiting& one) {
        if (one.request.owner != owner) return false;
        dropped.push_back(std::move(one.request));
        return true;
    });
    tidy(host);
    return dropped;
}

void LargeJobs::tidy(Hosts::iterator host) {
    if (host->second.running == 0 && host->second.waiting.empty()) hosts_.erase(host);
}

}  // namespace quern::rpc
