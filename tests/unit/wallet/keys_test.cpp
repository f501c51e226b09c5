#include "wallet/keys.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/fs.h"
#include "chain/types/address.h"

namespace quern::wallet {
namespace {

class KeysTest : public ::testing::Test {
protected:
    KeysTest() {
        std::string name = ::testing::TempDir() + "quern-wallet-XXXXXX";
        directory_ = ::mkdtemp(name.data());
    }
    ~KeysTest() override { std::filesystem::remove_all(directory_); }

    std::string write(const std::string& name, const std::string& text, unsigned mode = 0600) {
        const std::string path = directory_ + "/" + name;
        EXPECT_TRUE(fs::write_file_atomic(path, as_bytes(text), mode));
        return path;
    }
    static Expected<std::string> nobody(const char*) { return fail("wallet.no_password"); }

    std::string directory_;
    OsRng rng_;
};

TEST_F(KeysTest, a_keystore_opens_again_with_its_password_file_and_by_asking) {
    const auto key = key_from_seed("1/alice");
    ASSERT_TRUE(key);
    const std::string path = directory_ + "/key.json";
    const std::string password = write("password", "a word\nanother line\n");
    ASSERT_TRUE(make_keystore(*key, path, password, true, rng_, nobody));
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U);
    const auto opened = open_key({path, password, {}}, nobody);
    ASSERT_TRUE(opened) << opened.error().to_string();
    EXPECT_EQ(crypto::address20(*opened), crypto::address20(*key));
    std::string prompt;
    const auto asked = open_key({path, {}, {}}, [&](const char* text) -> Expected<std::string> {
        prompt = text;
        return std::string("a word");
    });
    ASSERT_TRUE(asked) << asked.error().to_string();
    EXPECT_EQ(crypto::address20(*asked), crypto::address20(*key));
    EXPECT_NE(prompt.find(path), std::string::npos) << "which password? " << prompt;
}

TEST_F(KeysTest, a_wrong_password_names_the_file) {
    const std::string path = directory_ + "/key.json";
    ASSERT_TRUE(make_keystore(*key_from_seed("x"), path, write("right", "right"), true, rng_, nobody));
    const auto wrong = open_key({path, write("wrong", "wrong"), {}}, nobody);
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().name, "keystore.wrong_password");
    EXPECT_NE(wrong.error().detail.find(path), std::string::npos) << wrong.error().detail;
}

TEST_F(KeysTest, what_is_no_keystore_names_the_file) {
    const auto broken = open_key({write("broken.json", "{ \"crypto\": ,"), write("password", "x"), {}}, nobody);
    ASSERT_FALSE(broken);
    EXPECT_EQ(broken.error().name, "json.syntax");
    EXPECT_NE(broken.error().detail.find("broken.json"), std::string::npos);
    const auto zero = open_key({write("zero.hex", std::string(64, '0')), {}, {}}, nobody);
    ASSERT_FALSE(zero);
    EXPECT_NE(zero.error().detail.find("zero.hex"), std::string::npos) << zero.error().to_string();
}

TEST_F(KeysTest, no_keystore_is_made_with_an_empty_password) {
    const std::string path = directory_ + "/key.json";
    const Status of_file =
        make_keystore(*key_from_seed("x"), path, write("empty", "\nsecond line\n"), true, rng_, nobody);
    ASSERT_FALSE(of_file);
    EXPECT_EQ(of_file.error().name, "wallet.empty_password");
    EXPECT_NE(of_file.error().detail.find("empty"), std::string::npos);
    const auto nothing = [](const char*) -> Expected<std::string> { return std::string(); };
    EXPECT_EQ(make_keystore(*key_from_seed("x"), path, {}, true, rng_, nothing).error().name, "wallet.empty_password");
    EXPECT_FALSE(fs::exists(path));
}

TEST_F(KeysTest, a_password_that_others_may_read_is_refused_before_a_keystore_is_made_with_it) {
    const std::string path = directory_ + "/key.json";
    const std::string open = write("open", "x", 0644);
    const Status made = make_keystore(*key_from_seed("x"), path, open, true, rng_, nobody);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().name, "key_file.permissions");
    EXPECT_NE(made.error().detail.find("chmod 600 " + open), std::string::npos) << made.error().detail;
    EXPECT_FALSE(fs::exists(path));
}

TEST_F(KeysTest, no_file_is_overwritten) {
    const std::string path = write("key.json", "something");
    const Status made = make_keystore(*key_from_seed("x"), path, write("password", "x"), true, rng_, nobody);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().name, "wallet.file_exists");
    EXPECT_EQ(fs::read_text_file(path, 100), "something");
}

TEST_F(KeysTest, new_passwords_are_typed_twice) {
    int count = 0;
    const auto differs = new_password({}, [&](const char*) { return Expected<std::string>(std::to_string(count++)); });
    ASSERT_FALSE(differs);
    EXPECT_EQ(differs.error().name, "wallet.password_differs");
    const auto same = new_password({}, [](const char*) { return Expected<std::string>("same"); });
    ASSERT_TRUE(same);
    EXPECT_EQ(*same, "same");
    EXPECT_EQ(new_password({}, nobody).error().name, "wallet.no_password");
}

TEST_F(KeysTest, keys_of_seeds_are_the_same_everywhere) {
    EXPECT_EQ(chain::types::to_checksum_address(crypto::address20(*key_from_seed("1/validator0"))),
              "0x2afB10139699349e8078Cfd29F7Cc293831b7D7f");
    EXPECT_NE(crypto::address20(*key_from_seed("a")), crypto::address20(*key_from_seed("b")));
    EXPECT_EQ(open_key({}, nobody).error().name, "wallet.no_key");
}

TEST_F(KeysTest, private_keys_are_shown_on_demand_only) {
    const auto key = *key_from_seed("x");
    EXPECT_EQ(describe(key, false).find("privateKey"), nullptr);
    EXPECT_NE(describe(key, true).find("privateKey"), nullptr);
}

}  // namespace
}  // namespace quern::wallet
