// Who may have how much of the quota and of the disk, and what goes for it.
#include <sys/statvfs.h>

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "content/store_impl.h"

namespace quern::content {
namespace {

constexpr std::uint64_t kMinFreeFiles = 65'536;  // inodes, for everybody else on the disk

// What is free for this process, or more than any where the system does not say. Nothing where files are short: a
// content takes two, and the node's database needs some.
std::uint64_t free_bytes(const std::string& directory) {
    struct statvfs disk {};
    if (::statvfs(directory.c_str(), &disk) != 0) return std::numeric_limits<std::uint64_t>::max() / 2;
    if (disk.f_files != 0 && disk.f_favail < std::min<std::uint64_t>(kMinFreeFiles, disk.f_files / 8)) return 0;
    return std::uint64_t{disk.f_bavail} * disk.f_frsize;
}

}  // namespace

bool Store::Impl::fits_quota(std::uint64_t bytes, std::uint64_t gain) const {
    return bytes <= options.quota_bytes && used + reserved - gain <= options.quota_bytes - bytes;
}

bool Store::Impl::fits_disk(std::uint64_t bytes, std::uint64_t gain) const {
    if (options.min_free_bytes == 0) return true;
    const std::uint64_t free = free_bytes(options.root) + gain;
    return bytes <= free && unwritten + options.min_free_bytes <= free - bytes;
}

Status Store::Impl::check_room(std::uint64_t bytes) const {
    if (contents.size() + lists.size() >= options.max_items)
        return fail("content.quota_exceeded",
                    std::to_string(contents.size() + lists.size()) + " contents are here, which is the limit");
    const std::uint64_t gain = closed_parts + leaving;
    if (!fits_quota(bytes, gain))
        return fail("content.quota_exceeded", std::to_string(bytes) + " bytes wanted; " +
                                                  std::to_string(used + reserved - gain) + " of " +
                                                  std::to_string(options.quota_bytes) + " used");
    if (!fits_disk(bytes, gain))
        return fault(kContentDiskFull, std::to_string(bytes) + " bytes wanted; of " +
                                           std::to_string(free_bytes(options.root)) + " that are free " +
                                           std::to_string(unwritten) + " are promised and " +
                                           std::to_string(options.min_free_bytes) + " stay so");
    return {};
}

void Store::Impl::reserve(std::uint64_t bytes) {
    reserved += bytes;
    unwritten += bytes;
}

Status Store::Impl::take_room(std::uint64_t bytes) {
    for (;;) {
        Status room;
        {
            const MutexLock lock(mutex);
            room = check_room(bytes);
            if (room && fits_quota(bytes, 0) && fits_disk(bytes, 0)) {
                reserve(bytes);
                return {};
            }
        }
        if (room)
            (void)let_part_go();
        else if (!let_contents_go(bytes))
            return room;
    }
}

bool Store::Impl::fits_without(std::uint64_t bytes, std::uint64_t gone) const {
    const std::uint64_t gain = gone + closed_parts + leaving;
    return fits_quota(bytes, gain) && fits_disk(bytes, gain) &&
           contents.size() + lists.size() - (gone != 0) < options.max_items;
}

bool Store::Impl::may_find_room(std::uint64_t bytes) {
    if (!duties || bytes > options.quota_bytes) return false;
    const MutexLock one(evicting);
    if (unix_now() < refused_until_s) return false;
    const MutexLock lock(mutex);
    std::uint64_t idle = 0;
    for (const IdleContent& each : idle_contents()) idle += each.room;
    return idle != 0 && fits_without(bytes, idle);
}

bool Store::Impl::let_contents_go(std::uint64_t bytes) {
    if (!duties || bytes > options.quota_bytes) return false;
    const MutexLock one(evicting);
    std::vector<IdleContent> idle;
    {
        const MutexLock lock(mutex);
        if (check_room(bytes)) return true;  // another has made it meanwhile
        if (unix_now() < refused_until_s) return false;
        idle = idle_contents();
    }
    if (idle.empty()) return false;
    std::set<Hash32> may_go_ids;
    for (const IdleContent& each : idle) may_go_ids.insert(each.id);
    const Status known = duties(may_go_ids);
    refused_until_s = unix_now() + kRefusedSeconds;  // unless something goes; looking may have taken long
    if (!known) {
        log::warning(log::Category::content, "nothing goes for want of room: duties are not known reason={}",
                     known.error().to_string());
        return false;
    }
    std::erase_if(idle, [&](const IdleContent& each) { return !may_go_ids.contains(each.id); });
    std::sort(idle.begin(), idle.end(), [](const IdleContent& a, const IdleContent& b) { return a.used_s < b.used_s; });
    std::uint64_t may_go = 0;
    for (const IdleContent& each : idle) may_go += each.room;
    {
        // Nothing goes for what has no room even then.
        const MutexLock lock(mutex);
        if (!fits_without(bytes, may_go)) return false;
    }
    std::uint64_t gone = 0;
    for (const IdleContent& each : idle) {
        if (gone >= options.quota_bytes / kEvictedShare) {
            const MutexLock lock(mutex);
            if (check_room(bytes)) break;
        }
        if (!remove(each.id)) continue;
        gone += each.room;
        log::info(log::Category::content, "went for want of room id={} last_used={}", to_hex(each.id), each.used_s);
    }
    if (gone != 0) refused_until_s = 0;
    return gone != 0;
}

void Store::Impl::give_back(UploadRoom& room) {
    deduct(unwritten, room.held - room.on_disk);
    deduct(announced, room.held - room.on_disk);
    deduct(reserved, room.held);
    room = {};
}

void Store::set_duties(Duties duties) { impl_->duties = std::move(duties); }

Expected<std::set<Hash32>> Store::let_go(std::set<Hash32> ids) {
    if (!impl_->duties) return fail("content.duties_unknown");
    const MutexLock one(impl_->evicting);
    {
        const MutexLock lock(impl_->mutex);
        for (auto id = ids.begin(); id != ids.end();)
            id = impl_->contents.contains(*id) || impl_->lists.contains(*id) ? std::next(id) : ids.erase(id);
    }
    std::set<Hash32> idle = ids;
    QUERN_CHECK(impl_->duties(idle));
    for (const Hash32& id : idle) {
        const Status removed = impl_->remove(id);
        if (!removed && removed.error().name != "content.not_found") return fail(removed.error());
        ids.erase(id);
    }
    return ids;
}

Status Store::Impl::check_disk(std::uint64_t bytes) {
    if (options.min_free_bytes == 0) return {};
    for (;;) {
        const std::uint64_t free = free_bytes(options.root);
        if (free >= bytes + options.min_free_bytes / 2) return {};
        if (!let_part_go())
            return fault(kContentDiskFull, std::to_string(free) + " bytes are free, which others shall have");
    }
}

}  // namespace quern::content
