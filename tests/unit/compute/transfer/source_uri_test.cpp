#include "compute/transfer/source_uri.h"

#include <gtest/gtest.h>

#include "compute/transfer/options.h"

namespace quern::compute::transfer {
namespace {

const std::string kId(64, 'a');
const std::string kCid = "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi";

SourceUri parsed(const std::string& text) {
    auto uri = parse_source_uri(text);
    EXPECT_TRUE(uri) << text << ": " << uri.error().to_string();
    return uri.value_or(SourceUri{});
}

TEST(SourceUri, takes_each_scheme) {
    const SourceUri web = parsed("https://example.org:8443/a/b%20c.u8?x=1&y=%2F");
    EXPECT_EQ(web.scheme, Scheme::https);
    EXPECT_EQ(web.authority, "example.org");
    EXPECT_EQ(web.port, 8443);
    EXPECT_EQ(web.path, "/a/b c.u8");
    EXPECT_EQ(web.query, "x=1&y=%2F");
    EXPECT_FALSE(web.is_folder());
    EXPECT_EQ(web.shown(), "https://example.org:8443/a/b%20c.u8") << "a query may hold a signature";
    EXPECT_EQ(web.text(), "https://example.org:8443/a/b%20c.u8?x=1&y=%2F");

    const SourceUri bucket = parsed("s3://data.sets/train+1/x=2.u8#" + kId);
    EXPECT_EQ(bucket.authority, "data.sets");
    EXPECT_EQ(*parsed("s3://data.sets/x#0x" + kId).id, *bucket.id);
    EXPECT_EQ(bucket.path, "/train+1/x=2.u8");
    EXPECT_EQ(to_hex(*bucket.id), kId);
    EXPECT_EQ(bucket.text(), "s3://data.sets/train%2B1/x%3D2.u8#" + kId) << "as S3 signs it";

    EXPECT_EQ(parsed("ipfs://" + kCid + "/set/data.u8").path, "/set/data.u8");
    EXPECT_EQ(parsed("ipfs://" + kCid).path, "");
    EXPECT_EQ(parsed("file:///srv/data/a.u8").path, "/srv/data/a.u8");
    EXPECT_EQ(parsed("http://[2001:db8::1]:80/a").authority, "[2001:db8::1]");
    for (const char* folder : {"https://example.org", "https://example.org/content/", "s3://abc/contents/"})
        EXPECT_TRUE(parsed(folder).is_folder()) << folder;
    EXPECT_FALSE(parsed("https://example.org/?a=b").is_folder());
}

TEST(SourceUri, refuses_what_could_be_read_in_two_ways) {
    const auto expect = [](const std::string& text, std::string_view name) {
        const auto uri = parse_source_uri(text);
        ASSERT_FALSE(uri) << text;
        EXPECT_EQ(uri.error().name, name) << text;
    };
    for (const char* text : {"",
                             "x",
                             "https:/a",
                             "https://",
                             "https:///a",
                             "https://a b/",
                             "https://a/\n",
                             "https://a/\x80",
                             "https://.a/",
                             "https://-a/",
                             "https://a..b/",
                             "https://a:0/",
                             "https://a:080/",
                             "https://a:65536/",
                             "https://a:/",
                             "https://a:1:2/",
                             "https://[::1/",
                             "https://[]/",
                             "https://[::1%25lo]/",
                             "https://[::1]x/",
                             "https://a/%",
                             "https://a/%2",
                             "https://a/%zz",
                             "https://a/%00",
                             "https://a/%0a",
                             "https://a/b\\c",
                             "https://a/%5c",
                             "https://a/b?",
                             "https://a/b?c^d",
                             "https://a/b#",
                             "https://a/b#12",

                             "s3://ab/key",
                             "s3://Bucket/key",
                             "s3://bucket",
                             "s3://bucket/",
                             "s3://a..b/key",
                             "s3://-bc/key",
                             "ipfs://short/a",
                             "ipfs:///ipfs/a",
                             "file://host/a",
                             "file:///",
                             "file://"})
        expect(text, "uri.bad");
    for (const char* path :
         {"/../b", "/a/../b", "/a/..", "/./a", "/a/.", "/%2e%2e/b", "/a/%2E%2e", "/a%2f..%2fb", "//a", "/a//b"}) {
        expect(std::string("https://a") + path, "uri.bad");
        expect(std::string("s3://bucket") + path, "uri.bad");
        expect("ipfs://" + kCid + path, "uri.bad");
        expect(std::string("file://") + path, "uri.bad");
    }
    for (const char* text :
         {"https://user@a/", "https://user:word@a/b", "http://a@127.0.0.1/", "https://@a/", "https://a\\@b/"})
        expect(text, "uri.has_credentials");
    for (const char* text : {"ftp://a/b", "gopher://a/b", "HTTPS://a/b", "data://a", " https://a", "javascript://a"})
        expect(text, text[0] == ' ' ? "uri.bad" : "uri.unknown_scheme");
    expect("https://a/" + std::string(kMaxUriBytes, 'a'), "uri.bad");
    expect("https://a/b#0x" + std::string(62, 'a'), "uri.bad");
    expect("https://a/b#0x0x" + std::string(62, 'a'), "uri.bad");
    expect("s3://bucket/" + std::string(1'025, 'a'), "uri.bad");
    EXPECT_TRUE(parse_source_uri("s3://bucket/" + std::string(1'024, 'a')));
}

TEST(S3Access, reads_a_profile_and_shows_no_secret) {
    constexpr std::string_view kFile =
        "# mine\n[default]\naws_access_key_id = ID\r\naws_secret_access_key=s3cret/+\n\n[ other ]\n"
        "aws_access_key_id=ID2\naws_secret_access_key = two\naws_session_token = tok\n[half]\naws_access_key_id = ID3\n"
        "[odd]\naws_access_key_id = a b\naws_secret_access_key = hidden\n";
    S3Access access;
    ASSERT_TRUE(read_credentials(kFile, "default", access));
    EXPECT_EQ(access.key_id, "ID");
    EXPECT_EQ(access.secret, "s3cret/+");
    EXPECT_EQ(access.session_token, "");
    ASSERT_TRUE(read_credentials(kFile, "other", access));
    EXPECT_EQ(access.secret + access.session_token, "twotok");
    S3Access none;
    EXPECT_EQ(read_credentials(kFile, "third", none).error().name, "s3.no_profile");
    EXPECT_EQ(read_credentials(kFile, "half", none).error().name, "s3.bad_credentials");
    S3Access odd;
    const Status refused = read_credentials(kFile, "odd", odd);
    EXPECT_EQ(refused.error().name, "s3.bad_credentials");
    EXPECT_EQ(refused.error().to_string().find("hidden"), std::string::npos);
}

}  // namespace
}  // namespace quern::compute::transfer
