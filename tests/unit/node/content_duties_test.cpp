// Which fragments are duties. Of programs, data, states and histories: services_test.cpp.
#include "node/serve/content_duties.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "chain/store/memory_kv.h"
#include "chain/store/tables.h"
#include "chain/types/native_objects.h"
#include "compute/core/custody_manifest.h"
#include "compute/core/history.h"
#include "compute/core/state_content.h"
#include "vm/tensor/graph.h"

namespace quern::node {
namespace {

namespace types = chain::types;
using compute::core::CustodyManifest;
using Ids = std::set<Hash32>;

constexpr std::size_t kMib = 1U << 20;
constexpr crypto::CellCode kCode{2, 6};  // of six custodians

class CustodyDuties : public ::testing::Test {
protected:
    CustodyDuties() {
        std::string pattern = ::testing::TempDir() + "quern-duties-XXXXXX";
        if (::mkdtemp(pattern.data()) != nullptr) folder_ = pattern;
        content::StoreOptions options{folder_, 256 * kMib, 64 * kMib};
        options.min_free_bytes = 0;
        contents_ = *content::Store::open(options);
        task_.id = 300;
        task_.steps = 2;
        task_.spec.work.interval = 1;
        task_.custodians = kCode.total;
        put(task_);
        claim_.id = {task_.id, 0, 0, 1};
        manifest_.code = kCode;
        add_content(1, 5);
        add_content(2, 40'000);
    }
    ~CustodyDuties() override { std::filesystem::remove_all(folder_); }

    template <class T>
    void put(const T& object) {
        put_at(types::key_of<T>(object.id), object);
    }
    template <class T>
    void put_at(const Bytes& key, const T& object) {
        chain::store::WriteBatch batch;
        batch.put(chain::store::table_key(chain::store::Table::native, {key}), types::encode_record(object));
        ASSERT_TRUE(state_store_.write(batch, true));
    }
    // Some of its fragments are here: contents of their size, of which nobody sees what they are.
    void add_content(std::uint8_t content, std::uint64_t size) {
        crypto::FragmentIds ids{size, Hash32{{content}}, std::vector<Hash32>(kCode.total)};
        for (unsigned i = 2; i < 5; ++i) {
            Bytes bytes(crypto::fragment_bytes(size, kCode.data), content);
            bytes.front() = static_cast<std::uint8_t>(i);
            ids.fragments[i] = *contents_->put(bytes);
            fragments_.insert(ids.fragments[i]);
        }
        manifest_.contents.push_back(ids);
    }
    void add_content_elsewhere(std::uint8_t content, std::uint64_t size) {
        manifest_.contents.push_back({size, Hash32{{content}}, std::vector<Hash32>(kCode.total)});
    }
    void claim(const Hash32& custody) {
        claim_.custody_content = custody;
        put(claim_);
    }
    void claim(const CustodyManifest& manifest) { claim(*contents_->put(encode(manifest))); }
    // All fragments, the manifest, and what the manifest names that is no fragment.
    [[nodiscard]] Ids all() const {
        Ids ids = fragments_;
        ids.insert(claim_.custody_content);
        ids.insert(other_.begin(), other_.end());
        return ids;
    }
    [[nodiscard]] Ids idle_of(Ids ids) const {
        const Status known = keep_content_duties(chain::state::FlatState(state_store_), market_, *contents_, ids);
        EXPECT_TRUE(known) << known.error().to_string();
        return ids;
    }
    [[nodiscard]] std::string_view error() const {
        Ids ids = all();
        const Status known = keep_content_duties(chain::state::FlatState(state_store_), market_, *contents_, ids);
        return known ? std::string_view() : known.error().name;
    }
    [[nodiscard]] std::string path(const Hash32& id) const {
        return folder_ + "/" + to_hex(id).substr(0, 2) + "/" + to_hex(id);
    }
    // Where a manifest is named and holds nothing.
    [[nodiscard]] Ids but_fragments() const {
        Ids ids = all();
        ids.erase(claim_.custody_content);
        return ids;
    }

    std::string folder_;
    std::unique_ptr<content::Store> contents_;
    chain::store::MemoryStore state_store_;
    chain::params::MarketParams market_;
    types::Task task_;
    types::Claim claim_;
    CustodyManifest manifest_;
    Ids fragments_;
    const Ids other_{Hash32{{1}}, Hash32{{2}}, Hash32{{99}}};
};

TEST_F(CustodyDuties, are_the_fragments_of_a_claim_and_their_manifest) {
    claim(Hash32{{7}});
    EXPECT_EQ(idle_of(all()), but_fragments()) << "a manifest that is not here names nothing";
    claim(manifest_);
    EXPECT_EQ(idle_of(all()), other_) << "neither what they are made of nor anything else";
    claim_.history_content = Hash32{{8}};
    put(claim_);
    types::Claim again = claim_;
    again.id.stretch = 1;
    again.custody_content = Hash32{{9}};
    put(again);
    EXPECT_EQ(idle_of({Hash32{{9}}}), Ids()) << "of a history that another claim has named, too";
}

TEST_F(CustodyDuties, what_a_solver_claims_is_kept_until_it_is_settled) {
    const Hash32 claimed{{77}};
    claim_.claimed_content = claimed;
    claim_.state = types::ClaimState::challenge;
    put(claim_);
    EXPECT_EQ(idle_of({claimed}), Ids());
    claim_.state = types::ClaimState::settled;
    put(claim_);
    EXPECT_EQ(idle_of({claimed}), Ids{claimed}) << "nobody asks for it any more";
}

// A claim of another task that comes first and names the same history says other steps of it, or that it is settled.
TEST_F(CustodyDuties, who_names_anothers_history_takes_nothing_from_it) {
    compute::core::HistoryManifest history;
    history.interval = 1;
    history.state_roots.resize(3);
    for (std::uint8_t i = 0; i < 3; ++i) history.checkpoint_contents.push_back(*contents_->put(Bytes(100, i)));
    claim_.history_content = *contents_->put(compute::core::encode(history));
    put(claim_);
    types::Task lie = task_;
    lie.id = task_.id - 1;
    types::Claim named = claim_;
    named.id.task = lie.id;
    const Ids states(history.checkpoint_contents.begin(), history.checkpoint_contents.end());
    for (const std::uint64_t steps : {2U, 4U})
        for (const auto state : {types::ClaimState::custody, types::ClaimState::settled}) {
            lie.steps = steps;
            put(lie);
            named.state = state;
            put(named);
            EXPECT_EQ(idle_of(states), Ids()) << steps;
        }
}

TEST_F(CustodyDuties, last_as_long_as_those_of_histories) {
    claim(manifest_);
    claim_.state = types::ClaimState::voided;
    put(claim_);
    EXPECT_EQ(idle_of(all()), all());
    claim_.state = types::ClaimState::settled;
    put(claim_);
    EXPECT_EQ(idle_of(all()), other_);
    task_.settled = 2;
    put(task_);
    EXPECT_EQ(idle_of(all()), all()) << "a later stretch is settled";
    task_.settled = 1;
    task_.state = types::TaskState::settled;
    task_.since = 1'000;
    put(task_);
    types::Globals globals;
    globals.market_ms = task_.since + market_.retention_s * 1000 - 1;
    put_at(types::key_of<types::Globals>(), globals);
    EXPECT_EQ(idle_of(all()), other_);
    ++globals.market_ms;
    put_at(types::key_of<types::Globals>(), globals);
    EXPECT_EQ(idle_of(all()), all()) << "the retention is over";
}

TEST_F(CustodyDuties, are_of_the_code_of_the_claims_custodians) {
    claim(manifest_);
    task_.custodians = 7;
    put(task_);
    EXPECT_EQ(idle_of(all()), but_fragments()) << "another n";
    task_.custodians = kCode.total;
    put(task_);
    ASSERT_EQ(idle_of(all()), other_);
    CustodyManifest other = manifest_;
    other.code.data = 1;
    for (auto& each : other.contents) each.size = crypto::fragment_bytes(each.size, kCode.data);
    claim(other);
    EXPECT_EQ(idle_of(all()), but_fragments()) << "another k";
    claim(*contents_->put(as_bytes("no manifest")));
    EXPECT_EQ(idle_of(all()), but_fragments());
}

TEST_F(CustodyDuties, do_not_depend_on_who_else_names_a_manifest) {
    claim(manifest_);
    types::Task liars = task_;
    liars.id = 1;
    liars.custodians = 7;
    put(liars);
    types::Claim lie = claim_;
    lie.id.task = liars.id;
    put(lie);
    EXPECT_EQ(idle_of(all()), other_) << "of other custodians";
    add_content_elsewhere(3, std::uint64_t{64} * kMib);
    task_.commit_work = 8'192 * vm::tensor::kTileHashWork;
    put(task_);
    claim(manifest_);
    lie.custody_content = claim_.custody_content;
    put(lie);
    liars.custodians = kCode.total;
    put(liars);
    ASSERT_EQ(idle_of(all()), other_) << "of a smaller task before it";
    std::swap(task_.commit_work, liars.commit_work);
    put(task_);
    put(liars);
    EXPECT_EQ(idle_of(all()), other_) << "and behind it";
}

TEST_F(CustodyDuties, are_as_large_as_the_manifest_says) {
    const crypto::ContentShards list{crypto::kContentShardBytes + 5, {Hash32{{1}}, Hash32{{2}}}};
    ASSERT_TRUE(contents_->put_shards(list));
    auto& small = manifest_.contents[0].fragments;
    auto& large = manifest_.contents[1].fragments;
    Ids idle = other_;
    idle.insert({small[3], large[3], small[4], list.id()});
    large[3] = small[3];
    small[3] = Hash32{{99}};
    small[4] = list.id();
    fragments_.insert(list.id());
    claim(manifest_);
    EXPECT_EQ(idle_of(all()), idle) << "what has another size, or none since it is here by shard alone";
}

TEST_F(CustodyDuties, are_of_no_more_and_no_larger_contents_than_a_claim_has) {
    constexpr std::uint64_t kTile = vm::tensor::kTileBytes;
    constexpr std::uint64_t kLeast = compute::core::kInlineTiles;
    constexpr std::uint64_t kSlack = 2'048;
    // The smallest states, of a tile each, and a history of three roots and three contents.
    task_.commit_work = vm::tensor::kTileHashWork;
    put(task_);
    const auto is_held = [&](std::uint64_t tiles) {
        // One content has what the two that are here leave.
        add_content_elsewhere(3, (tiles - 2 * kLeast) * kTile);
        claim(manifest_);
        manifest_.contents.pop_back();
        const Ids idle = idle_of(all());
        EXPECT_TRUE(idle == other_ || idle == but_fragments());
        return idle == other_;
    };
    EXPECT_TRUE(is_held(kSlack + 5));
    EXPECT_FALSE(is_held(kSlack + 6));
    task_.commit_work = 1'000 * vm::tensor::kTileHashWork;
    put(task_);
    EXPECT_TRUE(is_held(kSlack + 5'000)) << "states";
    EXPECT_FALSE(is_held(kSlack + 5'001));
    task_.steps = 1'000 * kTile / 64 - 1;
    put(task_);
    EXPECT_TRUE(is_held(kSlack + 6'000)) << "and their roots and contents";
    EXPECT_FALSE(is_held(kSlack + 6'001));
    // Each that is small counts as the smallest slot that is a content.
    task_.steps = 2;
    task_.commit_work = 0;
    put(task_);
    const auto are_held = [&](std::size_t count) {
        for (std::uint8_t i = 3; manifest_.contents.size() < count; ++i) add_content_elsewhere(i, 1);
        claim(manifest_);
        manifest_.contents.resize(2);
        return idle_of(all()) == other_;
    };
    EXPECT_TRUE(are_held(kSlack / kLeast));
    EXPECT_FALSE(are_held(kSlack / kLeast + 1));
    // A content's last tile may be short.
    manifest_.contents[0].size = (kSlack - kLeast) * kTile;
    claim(manifest_);
    EXPECT_NE(idle_of(all()), but_fragments());
    ++manifest_.contents[0].size;
    claim(manifest_);
    EXPECT_EQ(idle_of(all()), but_fragments());
}

TEST_F(CustodyDuties, are_not_known_where_a_manifest_is_damaged) {
    claim(manifest_);
    std::ofstream(path(claim_.custody_content)) << "damaged";
    EXPECT_EQ(error(), "content.corrupt");
    EXPECT_EQ(error(), "content.corrupt") << "that it is damaged is known";
    EXPECT_EQ(idle_of({claim_.custody_content}), Ids()) << "what is held whatever it says";
    // What is too large for one is not read.
    claim(*contents_->put(Bytes(compute::core::kMaxCustodyManifestBytes + 1)));
    std::ofstream(path(claim_.custody_content)) << "damaged";
    EXPECT_EQ(error(), "");
}

TEST_F(CustodyDuties, are_read_once_however_many_claims_name_them) {
    const auto bytes_read = [] {
        std::ifstream in("/proc/self/io");
        std::string name;
        std::uint64_t bytes = 0;
        in >> name >> bytes;
        return bytes;
    };
    for (std::uint8_t i = 3; i < 30; ++i) add_content_elsewhere(i, 2);
    claim(manifest_);
    ASSERT_EQ(idle_of(all()), other_);  // and leaf hashes are in memory
    const std::uint64_t size = *contents_->size(claim_.custody_content);
    const auto read_by_one = [&] {
        const std::uint64_t before = bytes_read();
        EXPECT_EQ(idle_of(all()), other_);
        return bytes_read() - before;
    };
    const std::uint64_t once = read_by_one();
    if (once < size) GTEST_SKIP() << "this system does not count what is read";
    for (std::uint32_t i = 1; i < 100; ++i) {
        types::Claim another = claim_;
        another.id.stretch = i;
        put(another);
    }
    EXPECT_LT(read_by_one(), once + size);
}

}  // namespace
}  // namespace quern::node
