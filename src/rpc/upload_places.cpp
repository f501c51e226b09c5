#include "rpc/upload_places.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "base/ensure.h"

namespace quern::rpc {

std::optional<std::size_t> choose_upload(std::span<const OpenUpload> uploads, std::string_view newcomer) {
    std::map<std::string_view, std::size_t> count;
    for (const OpenUpload& upload : uploads) ++count[upload.host];
    std::optional<std::size_t> victim;
    const auto goes_before = [&](const OpenUpload& a, const OpenUpload& b) {
        return std::tuple(count[b.host], b.behind_ms, a.received) < std::tuple(count[a.host], a.behind_ms, b.received);
    };
    for (std::size_t i = 0; i < uploads.size(); ++i)
        if (!victim || goes_before(uploads[i], uploads[*victim])) victim = i;
    if (!victim) return std::nullopt;
    const OpenUpload& chosen = uploads[*victim];
    const std::size_t own = count[newcomer];
    const std::size_t others = count[chosen.host];
    const bool leaves_no_more = own + 1 < others;
    const bool crawls = chosen.behind_ms >= kUploadCrawlsMs;
    return leaves_no_more || (own < others && crawls) ? victim : std::nullopt;
}

UploadPlaces::Place::~Place() {
    UploadPlaces::End end;  // destroyed without the lock: it may hold what has a place
    const MutexLock lock(places_.mutex_);
    const auto own = places_.entries_.find(number_);
    end = std::move(own->second.end);
    places_.entries_.erase(own);
}

Status UploadPlaces::Place::begin(std::uint64_t now_ms, End end) {
    return places_.begin(number_, now_ms, std::move(end));
}

void UploadPlaces::Place::wait(std::uint64_t now_ms) {
    const MutexLock lock(places_.mutex_);
    places_.entries_.at(number_).waits_since_ms = now_ms;
}

void UploadPlaces::Place::received(std::uint64_t now_ms, std::uint64_t bytes) {
    const MutexLock lock(places_.mutex_);
    Entry& entry = places_.entries_.at(number_);
    places_.count_time(entry, now_ms);
    entry.received += bytes;
    entry.debt -= std::min(entry.debt, bytes * 1000);  // what came early is no credit
}

void UploadPlaces::Place::rest(std::uint64_t now_ms) {
    const MutexLock lock(places_.mutex_);
    Entry& entry = places_.entries_.at(number_);
    places_.count_time(entry, now_ms);
    entry.waits_since_ms.reset();
}

void UploadPlaces::count_time(Entry& entry, std::uint64_t now_ms) const {
    if (!entry.waits_since_ms) return;
    const std::uint64_t since = std::exchange(*entry.waits_since_ms, now_ms);
    if (now_ms > since) entry.debt += (now_ms - since) * limits_.bytes_per_second;
}

std::uint64_t UploadPlaces::behind_ms(const Entry& entry) const {
    return entry.debt / std::max<std::uint64_t>(limits_.bytes_per_second, 1);
}

std::size_t UploadPlaces::count(Stage stage) const {
    return static_cast<std::size_t>(std::count_if(entries_.begin(), entries_.end(),
                                                  [&](const auto& entry) { return entry.second.stage == stage; }));
}

std::size_t UploadPlaces::held() const {
    const MutexLock lock(mutex_);
    return entries_.size();
}

UploadPlaces::Entries::iterator UploadPlaces::find_victim(const std::string& newcomer, std::uint64_t now_ms,
                                                          bool with_opening) {
    std::vector<OpenUpload> uploads;
    std::vector<Entries::iterator> same_order;
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
        Entry& entry = at->second;
        if (entry.stage == Stage::ending || (entry.stage == Stage::opening && !with_opening)) continue;
        count_time(entry, now_ms);
        uploads.push_back({entry.host, behind_ms(entry), entry.received});
        same_order.push_back(at);
    }
    const auto victim = choose_upload(uploads, newcomer);
    return victim ? same_order[*victim] : entries_.end();
}

Expected<std::unique_ptr<UploadPlaces::Place>> UploadPlaces::open(const std::string& host, std::uint64_t now_ms) {
    const MutexLock lock(mutex_);
    const auto of_host =
        std::count_if(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry.second.host == host; });
    if (static_cast<std::size_t>(of_host) >= limits_.per_host)
        return busy("content.too_many_uploads", "this host has as many uploads open as it may");
    if (entries_.size() >= most_uploads(limits_.places))
        return busy("content.too_many_uploads", "too many uploads begin or end");
    if (count(Stage::open) + count(Stage::opening) >= limits_.places &&
        find_victim(host, now_ms, true) == entries_.end())
        return busy("content.too_many_uploads", "all places are taken, by hosts that have no more than this one");
    const std::uint64_t number = next_++;
    entries_[number].host = host;
    return std::unique_ptr<Place>(new Place(*this, number));
}

Status UploadPlaces::begin(std::uint64_t number, std::uint64_t now_ms, End end) {
    End end_victim;
    {
        const MutexLock lock(mutex_);
        Entry& own = entries_.at(number);
        ensure(own.stage == Stage::opening, "an upload begins once");
        if (count(Stage::open) >= limits_.places) {
            const auto victim = find_victim(own.host, now_ms, false);
            if (victim == entries_.end())
                return busy("content.too_many_uploads",
                            "all places are taken, by hosts that have no more than this one");
            victim->second.stage = Stage::ending;
            end_victim = std::move(victim->second.end);
        }
        own.stage = Stage::open;
        own.begun_ms = now_ms;
        own.waits_since_ms = now_ms;
        own.end = std::move(end);
    }
    if (end_victim)
        end_victim(Error{"content.gave_way", "another host takes its place; try again later", ErrorKind::busy});
    return {};
}

void UploadPlaces::look(std::uint64_t now_ms) {
    std::vector<End> ends;
    {
        const MutexLock lock(mutex_);
        for (auto& [number, entry] : entries_) {
            if (entry.stage != Stage::open) continue;
            count_time(entry, now_ms);
            if (behind_ms(entry) < limits_.behind_ms && now_ms < entry.begun_ms + limits_.whole_ms) continue;
            entry.stage = Stage::ending;
            ends.push_back(std::move(entry.end));
        }
    }
    for (const End& end : ends) end(Error{"content.too_slow", "the upload takes too long", ErrorKind::input});
}

}  // namespace quern::rpc
