// A journal file as a disk keeps it: what was synced survives a crash, of what was not a random part does, cut
// anywhere. Belongs to one simulation.
#pragma once

#include <deque>

#include "base/rng.h"
#include "chain/consensus/sdbft/journal.h"

namespace quern::sim {

namespace sdbft = chain::consensus::sdbft;

class Disk {
public:
    void write(std::uint64_t sequence, const std::vector<sdbft::Record>& records, bool replace) {
        Write write{sequence, {}, replace};
        for (const auto& record : records) append(write.bytes, sdbft::encode_frame(next_frame_++, record));
        unsynced_.push_back(std::move(write));
        exists_ = true;
    }
    // All writes up to this one are durable now.
    void sync(std::uint64_t sequence) {
        while (!unsynced_.empty() && unsynced_.front().sequence <= sequence) {
            apply(unsynced_.front().bytes, unsynced_.front().replace);
            unsynced_.pop_front();
        }
    }
    void crash(Rng& rng) {
        // Appends may reach the disk in part; a replacement is a rename that happened or did not.
        while (!unsynced_.empty() && rng.below(2) == 0) {
            Write& write = unsynced_.front();
            if (!write.replace) {
                const std::size_t kept = rng.below(write.bytes.size() + 1);
                if (kept < write.bytes.size()) {
                    write.bytes.resize(kept);
                    apply(write.bytes, false);
                    break;
                }
            }
            apply(write.bytes, write.replace);
            unsynced_.pop_front();
        }
        unsynced_.clear();
    }
    // What a node finds when it starts; an unfinished tail is cut off.
    [[nodiscard]] Expected<std::vector<sdbft::Record>> recover() {
        QUERN_TRY(auto recovered, sdbft::recover(durable_));
        durable_.resize(recovered.valid_bytes);
        next_frame_ = recovered.next_sequence;
        return std::move(recovered.records);
    }
    void lose() { *this = Disk(); }
    [[nodiscard]] bool exists() const { return exists_; }

private:
    struct Write {
        std::uint64_t sequence = 0;
        Bytes bytes;
        bool replace = false;
    };
    void apply(const Bytes& bytes, bool replace) {
        if (replace) durable_.clear();
        append(durable_, bytes);
    }

    Bytes durable_;
    std::deque<Write> unsynced_;
    std::uint64_t next_frame_ = 0;
    bool exists_ = false;
};

}  // namespace quern::sim
