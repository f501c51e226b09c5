// Files, logs, arguments, threads, clocks and randomness.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#ifdef QUERN_JEMALLOC
#include <jemalloc/jemalloc.h>
#endif
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <numeric>
#include <thread>

#include "base/args.h"
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/machine_memory.h"
#include "base/rng.h"
#include "base/thread_pool.h"

namespace quern {
namespace {

long page_faults_of_a_block() {
    rusage before{};
    rusage after{};
    getrusage(RUSAGE_THREAD, &before);
    {
        std::vector<std::vector<std::uint8_t>> tables;
        for (int i = 0; i < 3; ++i) tables.emplace_back(std::size_t{16} << 20, std::uint8_t{1});
    }
    getrusage(RUSAGE_THREAD, &after);
    return after.ru_minflt - before.ru_minflt;
}

TEST(MachineMemory, is_known_and_asked_for) {
    constexpr std::uint64_t kMib = 1U << 20;
    EXPECT_GT(machine_memory(), 64 * kMib);
    EXPECT_LT(machine_memory(), std::uint64_t{1} << 50) << "a PiB";
    EXPECT_TRUE(check_memory(machine_memory()));
    EXPECT_EQ(check_memory(machine_memory() + 1).error().name, "memory.too_little");
    EXPECT_EQ(check_memory(3 * kMib + 1, 3 * kMib).error().to_string(),
              "memory.too_little: 4 MiB are needed, there are 3");
}

TEST(Allocator, what_a_block_freed_is_there_for_the_next_one) {
#ifndef QUERN_JEMALLOC
    GTEST_SKIP() << "a sanitizer's allocator";
#endif
    // On a thread of its own, as blocks are executed: to the main thread's arena the setting comes too late.
    long again = 0;
    std::thread([&again] {
        (void)page_faults_of_a_block();
        again = page_faults_of_a_block();
    }).join();
    EXPECT_LT(again, 100);  // 48 MiB are 12,288 pages
}

TEST(Allocator, what_threads_without_work_freed_goes_back_too) {
#ifdef QUERN_JEMALLOC
    bool looks = false;
    std::size_t size = sizeof(looks);
    ASSERT_EQ(mallctl("background_thread", &looks, &size, nullptr, 0), 0);
    EXPECT_TRUE(looks);
#else
    GTEST_SKIP() << "a sanitizer's allocator";
#endif
}

class Files : public testing::Test {
protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "quern-base-XXXXXX";
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    std::string folder_;
};

TEST_F(Files, a_file_in_pieces_appears_whole_or_not_at_all) {
    const std::string path = folder_ + "/pieces";
    const auto entries = [&] {
        return std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator());
    };
    {
        auto file = fs::AtomicFile::create(path);
        ASSERT_TRUE(file);
        ASSERT_TRUE(file->write(as_bytes("lost")));
        EXPECT_EQ(entries(), 1);
        fs::AtomicFile moved = std::move(*file);
        ASSERT_TRUE(moved.write(as_bytes("again")));
    }
    EXPECT_EQ(entries(), 0);
    auto file = fs::AtomicFile::create(path, 0640);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write(as_bytes("one ")));
    ASSERT_TRUE(file->write({}));
    ASSERT_TRUE(file->write(as_bytes("two")));
    EXPECT_FALSE(fs::exists(path));
    ASSERT_TRUE(file->commit());
    EXPECT_EQ(*fs::read_text_file(path, 100), "one two");
    EXPECT_EQ(std::filesystem::status(path).permissions(), static_cast<std::filesystem::perms>(0640));
    *file = std::move(*fs::AtomicFile::create(path));  // what was committed stays
    EXPECT_EQ(entries(), 2);
    file = fail("test.none");
    EXPECT_EQ(entries(), 1);
    EXPECT_EQ(*fs::read_text_file(path, 100), "one two");
    EXPECT_EQ(fs::AtomicFile::create(folder_ + "/no/dir").error().name, "fs.write_failed");
}

TEST_F(Files, atomic_write_replaces_and_leaves_no_temporary) {
    const std::string path = folder_ + "/a";
    ASSERT_TRUE(fs::write_file_atomic(path, as_bytes("one")).has_value());
    ASSERT_TRUE(fs::write_secret_file(path, as_bytes("two")).has_value());
    EXPECT_EQ(*fs::read_text_file(path, 100), "two");
    struct stat info {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(Files, reading_is_bounded_and_errors_are_named) {
    const std::string path = folder_ + "/a";
    ASSERT_TRUE(fs::write_file_atomic(path, Bytes(1000, 1)).has_value());
    EXPECT_EQ(fs::read_file(path, 1000)->size(), 1000U);
    EXPECT_EQ(fs::read_file(path, 999).error().name, "fs.too_large");
    EXPECT_EQ(fs::read_file(folder_ + "/none", 10).error().name, "fs.not_found");
    EXPECT_EQ(fs::read_file(folder_, 10).error().name, "fs.cannot_open");
    EXPECT_EQ(fs::read_file("/dev/zero", 100).error().name, "fs.too_large");
    EXPECT_EQ(fs::write_file_atomic(folder_ + "/no/dir", {}).error().name, "fs.write_failed");
}

// What the system said of the write itself, not of what was tidied up after it.
TEST_F(Files, a_full_disk_is_told_from_other_refusals) {
    const std::string path = folder_ + "/a";
    ASSERT_TRUE(fs::write_file_atomic(path, Bytes(10, 1)));
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    rlimit small = before;
    small.rlim_cur = 100;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const auto full = fs::write_file_atomic(path, Bytes(1000, 2));
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    ASSERT_FALSE(full);
    EXPECT_EQ(full.error().name, "fs.disk_full");
    EXPECT_TRUE(full.error().is_local_fault());
    EXPECT_EQ(fs::read_file(path, 1000)->size(), 10U);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
    ASSERT_TRUE(fs::create_directories(folder_ + "/folder/of_another"));
    EXPECT_EQ(fs::write_file_atomic(folder_ + "/folder", {}).error().name, "fs.write_failed");
}

TEST_F(Files, directories_are_made_with_parents) {
    EXPECT_TRUE(fs::create_directories(folder_ + "/x/y/z").has_value());
    EXPECT_TRUE(fs::create_directories(folder_ + "/x/y/z").has_value());
    EXPECT_TRUE(fs::create_directories(folder_ + "/x/y/z/").has_value());
    ASSERT_TRUE(fs::write_file_atomic(folder_ + "/file", {}).has_value());
    EXPECT_FALSE(fs::create_directories(folder_ + "/file/sub").has_value());
    EXPECT_FALSE(fs::create_directories(folder_ + "/file").has_value());
}

TEST_F(Files, a_lock_keeps_others_out_until_its_owner_lets_go) {
    const std::string path = folder_ + "/.lock";
    {
        const auto lock = fs::LockFile::acquire(path);
        ASSERT_TRUE(lock.has_value());
        const auto second = fs::LockFile::acquire(path);
        ASSERT_FALSE(second.has_value());
        EXPECT_EQ(second.error().name, "fs.locked");
        EXPECT_NE(second.error().detail.find(std::to_string(getpid())), std::string::npos);
    }
    EXPECT_TRUE(fs::LockFile::acquire(path).has_value());
}

TEST_F(Files, a_part_of_a_file_has_one_owner_and_the_file_stays_as_it_is) {
    const std::string path = folder_ + "/key";
    EXPECT_EQ(fs::LockFile::acquire_within(path, 1).error().name, "fs.cannot_open");
    ASSERT_TRUE(fs::write_file_atomic(path, as_bytes("ab"), 0600));
    {
        const auto lock = fs::LockFile::acquire_within(path, 7878);
        ASSERT_TRUE(lock) << lock.error().to_string();
        EXPECT_EQ(fs::LockFile::acquire_within(path, 7878).error().name, fs::kLocked);
        EXPECT_TRUE(fs::LockFile::acquire_within(path, 7877));
        EXPECT_TRUE(fs::LockFile::acquire_within(path, ~std::uint64_t{0}));
    }
    EXPECT_TRUE(fs::LockFile::acquire_within(path, 7878));
    EXPECT_EQ(fs::read_text_file(path, 100).value_or(""), "ab");
}

TEST_F(Files, a_log_line_holds_one_event_and_debug_is_by_category) {
    const std::string path = folder_ + "/log";
    ASSERT_TRUE(
        log::configure({.level = log::Level::info, .debug = {"exec"}, .file = path, .to_stderr = false}).has_value());
    log::info(log::Category::node, "started port={} name={}", 8545, "a\nb");
    log::debug(log::Category::exec, "shown");
    log::debug(log::Category::rpc, "hidden");
    log::flush();
    const std::string text = fs::read_text_file(path, 10000).value();
    EXPECT_NE(text.find("Z info [node] started port=8545 name=a\\x0ab\n"), std::string::npos) << text;
    EXPECT_NE(text.find("[exec] shown"), std::string::npos);
    EXPECT_EQ(text.find("hidden"), std::string::npos);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
    EXPECT_EQ(log::configure({.debug = {"nonsense"}}).error().name, "log.unknown_category");
    EXPECT_EQ(log::configure({.file = folder_ + "/missing-folder-as-file/" + std::string(300, 'x')}).error().name,
              "log.cannot_open");
    EXPECT_EQ(log::level_from_name("loud").error().name, "log.unknown_level");
    ASSERT_TRUE(log::configure({}).has_value());
}

TEST(Log, every_category_has_a_name) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(log::Category::count_); ++i)
        EXPECT_FALSE(log::name_of(static_cast<log::Category>(i)).empty());
    EXPECT_EQ(log::name_of(log::Category::test), "test");
    EXPECT_EQ(log::name_of(log::Category::consensus), "consensus");
}

TEST(Arguments, single_dash_words_become_long_options) {
    const char* argv[] = {"quernd", "-datadir=/x", "-chain", "dev", "--seed=1", "-h", "-5", "-", "--", "-raw"};
    const std::vector<std::string> wanted = {"--datadir=/x", "--chain", "dev", "--seed=1", "-h",
                                             "-5",           "-",       "--",  "-raw"};
    EXPECT_EQ(normalize_arguments(10, argv), wanted);
    EXPECT_EQ(arguments_for_cli11(10, argv).back(), "--datadir=/x");
    EXPECT_TRUE(normalize_arguments(1, argv).empty());
}

TEST(ThreadPool, runs_every_index_once_for_any_size) {
    for (const std::size_t threads : {1, 2, 3, 8}) {
        ThreadPool pool(threads);
        EXPECT_EQ(pool.size(), threads);
        for (const std::size_t count : {0, 1, 2, 7, 1000}) {
            std::vector<std::atomic<int>> seen(count);
            pool.parallel_for(count, [&](std::size_t i) { ++seen[i]; });
            for (const auto& times : seen) EXPECT_EQ(times.load(), 1);
        }
    }
}

TEST(ThreadPool, loops_end_whether_threads_spin_or_sleep_between_them) {
    ThreadPool pool(2);
    std::vector<int> values(64);
    for (int round = 1; round <= 400; ++round) {
        pool.parallel_for(values.size(), [&](std::size_t i) { ++values[i]; });
        for (const int value : values) ASSERT_EQ(value, round);
        // At once, after about as long as a thread spins, or long after it fell asleep.
        if (round % 3 == 1) std::this_thread::sleep_for(std::chrono::microseconds(round % 100));
        if (round % 40 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
}

TEST(ThreadPool, nested_and_concurrent_loops_end) {
    ThreadPool pool(3);
    std::atomic<int> total{0};
    std::vector<std::thread> callers;
    for (int t = 0; t < 3; ++t)
        callers.emplace_back([&] {
            for (int round = 0; round < 50; ++round)
                pool.parallel_for(4, [&](std::size_t) { pool.parallel_for(5, [&](std::size_t) { ++total; }); });
        });
    for (auto& caller : callers) caller.join();
    EXPECT_EQ(total.load(), 3 * 50 * 4 * 5);
}

TEST(Rng, a_seed_fixes_the_stream_and_bounds_hold) {
    SeededRng a(1);
    SeededRng b(1);
    SeededRng c(2);
    EXPECT_EQ(a.u64(), b.u64());
    EXPECT_NE(a.u64(), c.u64());
    std::array<int, 3> counts{};
    for (int i = 0; i < 3000; ++i) ++counts.at(a.below(3));
    for (const int count : counts) EXPECT_GT(count, 850);
    EXPECT_EQ(a.below(0), 0U);
    EXPECT_EQ(a.below(1), 0U);
    OsRng os;
    EXPECT_NE(os.u64(), os.u64());
}

TEST(Clock, the_manual_one_moves_only_by_hand) {
    ManualClock clock(5);
    EXPECT_EQ(clock.now_ms(), 5U);
    clock.advance(10);
    EXPECT_EQ(clock.monotonic_ms(), 15U);
    const SystemClock system;
    EXPECT_GT(system.now_ms(), 1'600'000'000'000U);
}

}  // namespace
}  // namespace quern
