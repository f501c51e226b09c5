#include "rpc/upload_places.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/rng.h"

namespace quern::rpc {
namespace {

using Victim = std::optional<std::size_t>;

TEST(ChooseUpload, the_host_that_has_most_gives_way_with_the_one_farthest_behind) {
    const std::vector<OpenUpload> uploads = {{"a", 9'000, 0}, {"b", 0, 70}, {"b", 500, 90}, {"b", 400, 10}};
    EXPECT_EQ(choose_upload(uploads, "c"), Victim(2));
    EXPECT_EQ(choose_upload(uploads, "a"), Victim(2));
    EXPECT_EQ(choose_upload(uploads, "b"), std::nullopt);
    // None is behind: least is lost with what has sent least.
    const std::vector<OpenUpload> fast = {{"a", 0, 5}, {"b", 0, 70}, {"b", 0, 10}};
    EXPECT_EQ(choose_upload(fast, "c"), Victim(2));
    EXPECT_EQ(choose_upload({}, "a"), std::nullopt);
}

TEST(ChooseUpload, no_place_is_taken_that_leaves_the_newcomer_with_more) {
    const std::vector<OpenUpload> uploads = {{"a", 0, 1}, {"a", 0, 2}, {"b", 0, 3}};
    EXPECT_EQ(choose_upload(uploads, "c"), Victim(0));
    EXPECT_EQ(choose_upload(uploads, "b"), std::nullopt);
    EXPECT_EQ(choose_upload(uploads, "a"), std::nullopt);
}

TEST(ChooseUpload, an_only_upload_is_lost_to_a_host_without_any_and_only_when_it_crawls) {
    std::vector<OpenUpload> uploads = {{"a", 0, 1'000}, {"b", kUploadCrawlsMs - 1, 3}, {"c", 10, 3}};
    EXPECT_EQ(choose_upload(uploads, "d"), std::nullopt);
    uploads[1].behind_ms = kUploadCrawlsMs;
    EXPECT_EQ(choose_upload(uploads, "d"), Victim(1));
    for (const char* host : {"a", "b", "c"}) EXPECT_EQ(choose_upload(uploads, host), std::nullopt) << host;
}

class UploadPlacesTest : public ::testing::Test {
protected:
    // An upload as the server has one: `told` is why it ended.
    struct One {
        std::string told;
        std::unique_ptr<UploadPlaces::Place> place;
    };
    static std::string name(char letter, int number) { return {letter, static_cast<char>('0' + number)}; }
    Expected<std::shared_ptr<One>> begin(const std::string& host) {
        QUERN_TRY(auto place, places.open(host, now));
        auto one = std::make_shared<One>();
        one->place = std::move(place);
        QUERN_CHECK(one->place->begin(
            now, [told = std::weak_ptr(one)](const Error& why) { told.lock()->told = std::string(why.name); }));
        one->place->wait(now);
        return one;
    }
    // As many bytes per second for so long, once a second.
    void send(One& one, std::uint64_t rate, std::uint64_t seconds) {
        for (std::uint64_t second = 0; second < seconds && one.told.empty(); ++second) {
            now += 1'000;
            one.place->received(now, rate);
            places.look(now);
        }
    }

    std::uint64_t now = 1'000'000;
    UploadPlaces places{{.places = 6, .per_host = 4}};
};

TEST_F(UploadPlacesTest, the_slowest_of_who_has_most_is_ended_and_told) {
    std::vector<std::shared_ptr<One>> many;
    for (int i = 0; i < 4; ++i) many.push_back(*begin("a"));
    EXPECT_EQ(begin("a").error().name, "content.too_many_uploads");
    const auto other = *begin("b");
    const auto second = *begin("b");
    now += 5'000;
    for (const std::size_t i : {0U, 1U, 3U}) many[i]->place->received(now, 100'000);
    const auto newcomer = begin("c");
    ASSERT_TRUE(newcomer) << newcomer.error().to_string();
    EXPECT_EQ(many[2]->told, "content.gave_way");
    EXPECT_EQ(places.held(), 7U);  // until it has ended
    many[2]->place.reset();
    EXPECT_EQ(places.held(), 6U);
    for (const std::size_t i : {0U, 1U, 3U}) EXPECT_EQ(many[i]->told, "");
    EXPECT_EQ(other->told + second->told, "");
    const auto third = begin("c");  // of three, two and one
    ASSERT_TRUE(third);
    EXPECT_EQ(other->told + second->told + (*newcomer)->told, "");
    const auto refused = begin("b");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().name, "content.too_many_uploads");
    EXPECT_TRUE(refused.error().is_busy());
}

TEST_F(UploadPlacesTest, a_line_of_256_kbit_passes_and_a_dribble_does_not) {
    const auto slow = *begin("a");
    send(*slow, 256'000 / 8 / 2, 3'600);  // half of it for another upload
    EXPECT_EQ(slow->told, "");
    send(*slow, 0, kUploadBehindMs / 1'000 - 1);  // the line was down
    EXPECT_EQ(slow->told, "");
    send(*slow, 256'000 / 8, 60);
    send(*slow, 0, kUploadBehindMs / 1'000 - 1);
    EXPECT_EQ(slow->told, "");
    send(*slow, 0, 2);
    EXPECT_EQ(slow->told, "content.too_slow");
    const auto dribble = *begin("a");
    send(*dribble, 1, kUploadBehindMs / 1'000 - 1);
    EXPECT_EQ(dribble->told, "");
    send(*dribble, 1, 3);
    EXPECT_EQ(dribble->told, "content.too_slow");
    const auto below = *begin("a");
    send(*below, kLeastUploadRate * 9 / 10, kUploadBehindMs / 100 + 2);
    EXPECT_EQ(below->told, "content.too_slow");
}

TEST_F(UploadPlacesTest, what_came_early_is_no_credit_for_a_pause) {
    const auto fast = *begin("a");
    send(*fast, 100'000'000, 60);
    send(*fast, 0, kUploadBehindMs / 1'000 + 1);
    EXPECT_EQ(fast->told, "content.too_slow");
}

TEST_F(UploadPlacesTest, the_time_of_the_node_counts_for_nobody_but_a_day_does) {
    const auto one = *begin("a");
    one->place->rest(now);
    now += 3'600'000;
    places.look(now);
    EXPECT_EQ(one->told, "");
    one->place->wait(now);
    send(*one, 20'000, 23 * 3'600 - 1);
    EXPECT_EQ(one->told, "");
    send(*one, 20'000, 1);
    EXPECT_EQ(one->told, "content.too_slow");
}

TEST_F(UploadPlacesTest, hosts_without_number_that_dribble_keep_nobody_out) {
    std::vector<std::shared_ptr<One>> crawling;
    for (int i = 0; i < 6; ++i) crawling.push_back(*begin(name('c', i)));
    EXPECT_EQ(begin("a").error().name, "content.too_many_uploads");
    now += kUploadCrawlsMs;
    for (const auto& one : crawling) one->place->received(now, 1);
    now += 1'000;
    EXPECT_TRUE(begin("a"));
}

TEST_F(UploadPlacesTest, what_begins_and_what_ends_is_bounded_too) {
    std::vector<std::unique_ptr<UploadPlaces::Place>> opening;
    for (int i = 0; i < 3; ++i) opening.push_back(*places.open("a", now));
    std::vector<std::shared_ptr<One>> open;
    for (int i = 0; i < 3; ++i) open.push_back(*begin(name('a', i)));
    EXPECT_FALSE(places.open("a", now));  // it has no fewer than another
    for (int i = 0; i < 6; ++i) {
        auto one = places.open(name('b', i), now);
        ASSERT_TRUE(one) << i;
        opening.push_back(std::move(*one));
    }
    EXPECT_EQ(places.held(), most_uploads(6));
    EXPECT_EQ(places.open("c", now).error().name, "content.too_many_uploads");
    opening.clear();
    open.clear();
    EXPECT_EQ(places.held(), 0U);
}

// Whatever comes: never more have a place than there are, a host keeps its only upload while it moves, and a host
// without any gets in wherever another has two.
TEST_F(UploadPlacesTest, random_hosts_share_the_places) {
    constexpr std::uint64_t kSeed = 4;
    SCOPED_TRACE(kSeed);
    SeededRng rng(kSeed);
    std::vector<std::pair<std::string, std::shared_ptr<One>>> uploads;
    const auto count = [&](const std::string& host) {
        return std::count_if(uploads.begin(), uploads.end(), [&](const auto& one) { return one.first == host; });
    };
    int gave_way = 0;
    for (int step = 0; step < 20'000; ++step) {
        now += rng.below(300);
        for (auto& [host, one] : uploads) one->place->received(now, 10'000);
        const std::string host(1, static_cast<char>('a' + rng.below(5)));
        if (rng.below(3) == 0 && !uploads.empty()) {
            uploads.erase(uploads.begin() + static_cast<std::ptrdiff_t>(rng.below(uploads.size())));
            continue;
        }
        std::ptrdiff_t most = 0;
        for (const auto& one : uploads) most = std::max(most, count(one.first));
        const std::ptrdiff_t own = count(host);
        const bool full = uploads.size() == 6;
        const auto newcomer = begin(host);
        EXPECT_EQ(newcomer.has_value(), own < 4 && (!full || own + 1 < most));
        for (auto at = uploads.begin(); at != uploads.end(); ++at) {
            if (at->second->told.empty()) continue;
            EXPECT_EQ(count(at->first), most);
            EXPECT_TRUE(newcomer && full);
            ++gave_way;
            uploads.erase(at);
            break;
        }
        if (newcomer) uploads.emplace_back(host, *newcomer);
        ASSERT_EQ(places.held(), uploads.size());
        ASSERT_LE(uploads.size(), 6U);
    }
    EXPECT_GT(gave_way, 100);
}

TEST(UploadPlaces, threads_come_and_go) {
    UploadPlaces places({.places = 3, .per_host = 2});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&places, host = std::string(1, static_cast<char>('a' + t))] {
            for (std::uint64_t i = 0; i < 2'000; ++i) {
                auto place = places.open(host, i);
                if (!place || !(*place)->begin(i, [](const Error&) {})) continue;
                (*place)->received(i + 1, 10);
                places.look(i + 1);
                (*place)->rest(i + 2);
            }
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(places.held(), 0U);
}

}  // namespace
}  // namespace quern::rpc
