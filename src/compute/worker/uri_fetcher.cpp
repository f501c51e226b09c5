#include "compute/worker/uri_fetcher.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/fs.h"
#include "base/log.h"

namespace quern::compute::worker {
namespace {

namespace disk = std::filesystem;

struct Kept {
    disk::path path;
    disk::file_time_type at;
    std::uint64_t bytes = 0;
};
// What is on its way or was, the oldest first.
std::vector<Kept> files_of(const std::string& directory) {
    std::vector<Kept> files;
    std::error_code problem;
    for (disk::directory_iterator each(directory, problem), end; !problem && each != end; each.increment(problem)) {
        std::error_code gone;
        const std::uint64_t bytes = each->file_size(gone);
        const auto at = each->last_write_time(gone);
        if (!gone) files.push_back({each->path(), at, bytes});
    }
    std::sort(files.begin(), files.end(), [](const Kept& a, const Kept& b) { return a.at < b.at; });
    return files;
}

}  // namespace

std::optional<std::uint64_t> available_bytes(const std::string& directory) {
    std::error_code problem;
    const auto space = disk::space(directory, problem);
    return problem ? std::nullopt : std::optional<std::uint64_t>(space.available);
}

UriFetcher::UriFetcher(UriOptions options, NodeFactory connect, const Clock& clock)
    : options_(std::move(options)), connect_(std::move(connect)), clock_(clock) {}

UriFetcher::~UriFetcher() {
    std::list<std::thread> threads;
    {
        const MutexLock lock(mutex_);
        stop_ = true;
        threads.swap(threads_);
    }
    changed_.notify_all();
    for (std::thread& thread : threads) thread.join();
}

bool UriFetcher::fetches(const chain::types::Task& task, const WantedContent& content, Duty duty) {
    const transfer::Wanted wanted{content.id, content.size, std::min(content.max_bytes, options_.max_bytes),
                                  content.is_only_data, options_.shard_level};
    if (wanted.size.value_or(0) > options_.max_bytes || options_.max_bytes == 0) return false;
    auto sources = transfer::sources_of(task.spec.contents.uris, wanted);
    std::erase_if(sources, [&](const transfer::SourceUri& uri) {
        return !options_.transfer.schemes.contains(uri.scheme) &&
               !(uri.scheme == transfer::Scheme::http && options_.transfer.private_addresses);
    });
    if (sources.empty()) return false;
    const std::uint64_t now = clock_.monotonic_ms();
    const MutexLock lock(mutex_);
    const auto known = jobs_.find(content.id);
    if (known != jobs_.end() && known->second.stage != Stage::ended) {
        known->second.asked->at = now;
        // What one task's sources do not send another's may; that is found out when it has ended.
        if (duty == Duty::bound && known->second.duty != duty) {
            known->second.duty = duty;
            changed_.notify_all();
        }
        return true;
    }
    // Of another task, with sources of its own, it is tried at once.
    if (known != jobs_.end() && known->second.task == task.id && now < known->second.again_at) return false;
    std::erase_if(jobs_, [&](const auto& entry) {
        return entry.second.stage == Stage::ended && now >= entry.second.again_at + kUriAgainMostMs;
    });
    if (!jobs_.contains(content.id) && !has_place(duty)) return false;
    Job& job = jobs_[content.id];
    const bool anew = job.task != task.id;
    job = {task.id, std::move(sources), wanted, duty, Stage::waiting, ++asked_, 0, anew ? kUriAgainMs : job.wait_ms,
           nullptr};
    job.asked = std::make_shared<Asked>();
    job.asked->at = now;
    if (threads_.size() < kUriFetchers) threads_.emplace_back([this] { run(); });
    changed_.notify_all();
    return true;
}

bool UriFetcher::is_over(const Asked& asked) const {
    const std::uint64_t now = clock_.monotonic_ms();
    const std::uint64_t at = asked.at;
    return stop_ || asked.makes_room || (now > at && now - at > kUriForgottenMs);
}

bool UriFetcher::has_place(Duty duty) {
    if (jobs_.size() < kMaxUriJobs) return true;
    if (duty == Duty::voluntary) return false;
    const auto other = std::find_if(jobs_.begin(), jobs_.end(), [](const auto& entry) {
        return entry.second.stage != Stage::running && entry.second.duty == Duty::voluntary;
    });
    if (other == jobs_.end()) return false;
    jobs_.erase(other);
    return true;
}

// What the worker answers for first, then what was asked for first.
UriFetcher::Jobs::iterator UriFetcher::next() {
    std::size_t voluntary = 0;
    std::set<std::uint64_t> busy_tasks;
    for (const auto& [id, job] : jobs_) {
        if (job.stage != Stage::running) continue;
        busy_tasks.insert(job.task);
        if (job.duty == Duty::voluntary) ++voluntary;
    }
    auto best = jobs_.end();
    for (auto it = jobs_.begin(); it != jobs_.end(); ++it) {
        const Job& job = it->second;
        if (job.stage != Stage::waiting || busy_tasks.contains(job.task)) continue;
        if (job.duty == Duty::voluntary && voluntary >= kVoluntaryUriFetchers) continue;
        if (best == jobs_.end() || std::pair(job.duty, job.number) < std::pair(best->second.duty, best->second.number))
            best = it;
    }
    return best;
}

bool UriFetcher::make_room(const Hash32& id, std::uint64_t bytes) {
    (void)fs::create_directories(options_.directory, 0700);
    std::uint64_t reserved = bytes;
    std::set<std::string> running{to_hex(id)};
    for (const auto& [other, job] : jobs_) {
        if (job.stage != Stage::running) continue;
        reserved += job.bytes();
        running.insert(to_hex(other));
    }
    if (reserved > options_.max_bytes) return false;
    std::vector<Kept> kept = files_of(options_.directory);
    std::uint64_t to_come = reserved;  // of what is reserved; the rest is on the disk already
    std::uint64_t held = 0;
    for (const Kept& file : kept) {
        if (running.contains(file.path.stem().string()))
            to_come -= std::min(to_come, file.bytes);
        else
            held += file.bytes;
    }
    const auto available = options_.available(options_.directory);
    const std::uint64_t needed = to_come + kUriFreeBytes;
    std::uint64_t missing = available && *available < needed ? needed - *available : 0;
    if (missing > held) return false;
    std::error_code problem;
    for (const Kept& file : kept) {
        if (held <= options_.max_bytes - reserved && missing == 0) break;
        if (running.contains(file.path.stem().string())) continue;
        held -= file.bytes;
        missing -= std::min(missing, file.bytes);
        disk::remove(file.path, problem);
    }
    return true;
}

bool UriFetcher::stop_voluntary() {
    bool any = false;
    for (const auto& [id, job] : jobs_) {
        if (job.stage != Stage::running || job.duty == Duty::bound) continue;
        job.asked->makes_room = true;
        any = true;
    }
    return any;
}

void UriFetcher::run() {
    MutexLock lock(mutex_);
    while (!stop_) {
        const auto found = next();
        if (found == jobs_.end()) {
            changed_.wait(lock);
            continue;
        }
        const Hash32 id = found->first;
        const bool room = make_room(id, found->second.bytes());
        if (!room && found->second.duty == Duty::bound && stop_voluntary()) {
            changed_.wait(lock);
            continue;
        }
        found->second.stage = Stage::running;
        const Job job = found->second;
        Status done;
        if (room) {
            lock.unlock();
            done = bring(job);
            lock.lock();
        } else {
            done = busy("uris.no_room", std::to_string(job.bytes()) + " bytes");
        }
        if (!done && !stop_)
            log::warning(log::Category::worker, "no source gives a content task={} content={} reason={}", job.task,
                         to_hex(id), done.error().to_string());
        Job& ended = jobs_.at(id);
        ended.stage = Stage::ended;
        ended.again_at = clock_.monotonic_ms() + ended.wait_ms;
        ended.wait_ms = std::min(2 * ended.wait_ms, kUriAgainMostMs);
        changed_.notify_all();
    }
}

Status UriFetcher::bring(const Job& job) {
    const auto node = connect_();
    if (node == nullptr) return busy(kBadAnswer, "no connection");
    const Cancellation over([this, &job] { return is_over(*job.asked); });
    QUERN_TRY(const transfer::Fetched content,
              transfer::fetch(job.wanted, job.sources, options_.directory, options_.transfer, &over));
    QUERN_CHECK(put(*node, content));
    log::info(log::Category::worker, "content fetched task={} content={} bytes={} from={}", job.task,
              to_hex(job.wanted.id), content.shards.size, content.from.empty() ? "disk" : content.from);
    return fs::remove_file(content.path);
}

Status UriFetcher::put(NodeView& node, const transfer::Fetched& content) {
    std::ifstream file(content.path, std::ios::binary);
    if (!file) return fault("fs.cannot_open", content.path);
    const crypto::ContentShards& shards = content.shards;
    for (std::size_t i = 0; i < std::max<std::size_t>(shards.tops.size(), 1); ++i) {
        std::uint64_t left = shards.is_list() ? shards.bytes_of(i) : shards.size;
        file.seekg(static_cast<std::streamoff>(i * shards.shard_bytes()));
        const auto source = [&](std::span<std::uint8_t> target) -> Expected<std::size_t> {
            const std::uint64_t part = std::min<std::uint64_t>(target.size(), left);
            file.read(reinterpret_cast<char*>(target.data()), static_cast<std::streamsize>(part));
            left -= static_cast<std::uint64_t>(file.gcount());
            return static_cast<std::size_t>(file.gcount());
        };
        QUERN_CHECK(node.put_stream(shards.is_list() ? shards.id_of(i) : shards.id(), left, source));
    }
    // Where the list is, the shards were before it.
    if (shards.is_list()) QUERN_CHECK(node.put_shards(shards));
    return {};
}

}  // namespace quern::compute::worker
