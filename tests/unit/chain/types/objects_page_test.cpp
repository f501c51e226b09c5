// doc/objects.md tells those who write another implementation what an object's RLP is: it says what is encoded here.
#include <gtest/gtest.h>

#include <map>

#include "base/fs.h"
#include "chain/types/native_objects.h"

namespace quern::chain::types {
namespace {

template <class T>
constexpr std::string_view kName{};
#define QUERN_NAMED(type) \
    template <>           \
    constexpr std::string_view kName<type> = #type;
// Records with a table of their own, and what only their fields name.
#define QUERN_TABLES(X)    \
    X(Globals)             \
    X(BeaconObject)        \
    X(EpochObject)         \
    X(ValidatorObject)     \
    X(CommitteeEntry)      \
    X(StakeDelegation)     \
    X(StakeUnbonding)      \
    X(StakeUnbondingEntry) \
    X(Conviction)          \
    X(EvidenceCommitment)  \
    X(RoleBond)            \
    X(UnbondingEntry)      \
    X(DrawNode)            \
    X(DrawVersion)         \
    X(DrawTable)           \
    X(Capacity)            \
    X(Task)                \
    X(DataChallenge)       \
    X(TaskBid)             \
    X(TaskSeat)            \
    X(Payment)             \
    X(SlashRecord)         \
    X(ChallengeCommitment) \
    X(ClaimId)             \
    X(Claim)               \
    X(VerifierReport)      \
    X(Custody)             \
    X(Custodian)           \
    X(ProofRecord)         \
    X(TaskImport)          \
    X(ImportedSlots)       \
    X(TaskProfiling)       \
    X(TaskProfiler)        \
    X(ProfiledBounds)      \
    X(Dispute)             \
    X(Watch)
QUERN_TABLES(QUERN_NAMED)
QUERN_NAMED(TaskSubmitPayload)
QUERN_NAMED(Role)
QUERN_NAMED(TaskState)
QUERN_NAMED(ClaimState)
QUERN_NAMED(DisputeWinner)
QUERN_NAMED(ReportChoice)
#undef QUERN_NAMED

template <class T>
std::string type_of() {
    if constexpr (std::is_same_v<T, bool>) {
        return "bool";
    } else if constexpr (std::is_same_v<T, Bytes>) {
        return "bytes";
    } else if constexpr (std::is_same_v<T, std::string>) {
        return "text";
    } else if constexpr (std::is_same_v<T, Uint256>) {
        return "u256";
    } else if constexpr (FixedBytesField<T>) {
        return std::to_string(T::kSize) + " bytes";
    } else if constexpr (RecordVector<T>) {
        return "list of " + type_of<typename T::value_type>();
    } else if constexpr (std::unsigned_integral<T>) {
        return "u" + std::to_string(8 * sizeof(T));
    } else {
        static_assert(!kName<T>.empty(), "a record or an enum that doc/objects.md must name");
        return "`" + std::string(kName<T>) + "`";
    }
}

struct Rows {
    std::vector<std::string> rows;
    template <class T>
    void operator()(const char* name, const T&) {
        rows.push_back(std::string("| `") + name + "` | " + type_of<T>() + " |");
    }
};
template <class T>
std::vector<std::string> rows_of() {
    Rows visitor;
    T{}.fields(visitor);
    return visitor.rows;
}

struct Table {
    std::string key;  // what stands behind the name in its heading
    std::vector<std::string> rows;
};

class ObjectsPage : public ::testing::Test {
protected:
    void SetUp() override {
        auto text = fs::read_text_file(QUERN_OBJECTS_PAGE, std::size_t{1} << 20);
        ASSERT_TRUE(text) << text.error().to_string();
        page = std::move(*text);
        Table* table = nullptr;
        for (std::size_t at = 0; at < page.size();) {
            const std::size_t end = std::min(page.find('\n', at), page.size());
            const std::string line = page.substr(at, end - at);
            at = end + 1;
            if (line.starts_with("#")) {
                table = nullptr;
                if (!line.starts_with("### `")) continue;
                const std::size_t name_end = line.find('`', 5);
                table = &tables[line.substr(5, name_end - 5)];
                table->key = line.substr(name_end + 1);
            } else if (table != nullptr && line.starts_with("| `")) {
                const std::size_t cells = line.find('|', line.find('|', 1) + 1);
                table->rows.push_back(line.substr(0, cells + 1));
            }
        }
    }

    // The heading's prefix, and the bytes that it says a key has.
    static std::pair<std::string, std::size_t> key_of_heading(const std::string& heading) {
        std::size_t size = 1;
        for (std::size_t open = heading.find('('); open != std::string::npos; open = heading.find('(', open + 1))
            size += std::stoul(heading.substr(open + 1));
        return {heading.substr(0, 6), size};
    }

    template <class T>
    void expect_key(const Bytes& key) {
        const auto [prefix, size] = key_of_heading(tables[std::string(kName<T>)].key);
        EXPECT_EQ(prefix, ": 0x" + to_hex(BytesView(key).first(1))) << kName<T>;
        EXPECT_EQ(size, key.size()) << kName<T>;
        keys.push_back(key);
    }

    std::string page;
    std::map<std::string, Table> tables;
    std::vector<Bytes> keys;
};

TEST_F(ObjectsPage, has_the_fields_of_each_record_in_their_order) {
    std::size_t records = 0;
#define QUERN_COMPARE(type)                                  \
    EXPECT_EQ(tables[#type].rows, rows_of<type>()) << #type; \
    ++records;
    QUERN_TABLES(QUERN_COMPARE)
#undef QUERN_COMPARE
    EXPECT_EQ(tables.size(), records) << "a table of a record that there is no more";
}

TEST_F(ObjectsPage, has_each_objects_key) {
    const Address address;
    const ClaimId claim;
    expect_key<Globals>(key_of<Globals>());
    expect_key<BeaconObject>(key_of<BeaconObject>(std::uint64_t{1}));
    expect_key<EpochObject>(key_of<EpochObject>(std::uint64_t{1}));
    expect_key<ValidatorObject>(key_of<ValidatorObject>(address));
    expect_key<CommitteeEntry>(rank_key(Uint256(1), address));
    expect_key<StakeDelegation>(key_of<StakeDelegation>(address, address));
    expect_key<StakeUnbonding>(key_of<StakeUnbonding>(address, address));
    expect_key<Conviction>(key_of<Conviction>(std::uint64_t{1}, address));
    expect_key<EvidenceCommitment>(key_of<EvidenceCommitment>(address));
    expect_key<RoleBond>(key_of<RoleBond>(Role::solver, address));
    expect_key<DrawNode>(key_of<DrawNode>(Role::verifier, std::uint8_t{0}, std::uint32_t{1}));
    expect_key<DrawTable>(key_of<DrawTable>(Role::verifier));
    expect_key<Task>(key_of<Task>(std::uint64_t{1}));
    expect_key<ChallengeCommitment>(key_of<ChallengeCommitment>(claim, address, Hash32{}));
    expect_key<Claim>(key_of<Claim>(claim));
    expect_key<VerifierReport>(key_of<VerifierReport>(claim, std::uint8_t{0}));
    expect_key<Custody>(key_of<Custody>(claim));
    expect_key<ProofRecord>(key_of<ProofRecord>(std::uint64_t{1}, std::uint16_t{0}));
    expect_key<Dispute>(key_of<Dispute>(std::uint64_t{1}));
    expect_key<Watch>(key_of<Watch>(claim, std::uint64_t{1}, std::uint8_t{0}, address));
    std::size_t known = 0;
    for (unsigned number = 0; number < 256; ++number)
        if (prefix_of_key(Bytes{static_cast<std::uint8_t>(number)})) ++known;
    EXPECT_EQ(known, keys.size()) << "a new object needs a table and a line above";
}

template <class Enum>
std::string numbers_of() {
    std::string text = "* `" + std::string(kName<Enum>) + "`:";
    std::string separator = " ";
    for (unsigned number = 0; number < 256; ++number) {
        const std::string_view name = to_string(static_cast<Enum>(number));
        if (name == "unknown") continue;
        text += separator + std::to_string(number) + " " + std::string(name);
        separator = ", ";
    }
    return text + "\n";
}

TEST_F(ObjectsPage, has_the_numbers_of_enums) {
    for (const std::string& line : {numbers_of<Role>(), numbers_of<TaskState>(), numbers_of<ClaimState>(),
                                    numbers_of<DisputeWinner>(), numbers_of<ReportChoice>()})
        EXPECT_NE(page.find(line), std::string::npos) << line;
}

TEST_F(ObjectsPage, has_an_example) {
    RoleBond bond;
    bond.address = Address::copy_of(Bytes(20, 0x11));
    bond.role = Role::verifier;
    bond.bonded = Uint256(1000);
    bond.locked = Uint256(250);
    bond.unbonding = {{Uint256(40), 900}};
    bond.games = 1;
    bond.place = 7;
    bond.weight = Uint256(1000);
    bond.capacity = {123'456, 42, 41, 16'384};
    bond.capacity_since = 9;
    EXPECT_NE(page.find("\nkey   " + to_hex(key_of<RoleBond>(bond.role, bond.address)) + "\n"), std::string::npos);
    EXPECT_NE(page.find("\nvalue " + to_hex(encode_record(bond)) + "\n"), std::string::npos);
    const Bytes report = key_of<VerifierReport>(ClaimId{5, 0, 1, 3}, std::uint8_t{2});
    EXPECT_NE(page.find("`" + to_hex(report) + "`"), std::string::npos);
}

}  // namespace
}  // namespace quern::chain::types
