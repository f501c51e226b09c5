#include "compute/program/csv_file.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>
#include <set>
#include <system_error>

#include "base/json.h"
#include "compute/program/readable.h"

namespace quern::compute::program {

namespace {

using vm::tensor::DataType;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kBadNumber = "csv.bad_number";
constexpr std::size_t kMostU8Classes = 256;

std::string shown(std::string_view field) { return std::string("'").append(readable(field)).append("'"); }

// Records, one after the other.
class Records {
public:
    Records(std::string_view text, std::size_t most_fields) : text_(text), most_fields_(most_fields) {
        if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
    }
    [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
    [[nodiscard]] std::uint64_t line() const { return line_; }  // of the record that next() gave last
    [[nodiscard]] std::string where() const { return "line " + std::to_string(line_); }

    // Not at the end.
    [[nodiscard]] Status next(std::vector<std::string>& fields) {
        line_ = next_line_;
        fields.clear();
        for (;;) {
            if (fields.size() == most_fields_)
                return fail("csv.too_many_columns", where() + ": more than " + std::to_string(most_fields_));
            std::string& field = fields.emplace_back();
            QUERN_CHECK(at_ < text_.size() && text_[at_] == '"' ? quoted(field) : plain(field));
            if (at_ < text_.size() && text_[at_] == ',') {
                ++at_;
                continue;
            }
            return end_line();
        }
    }

private:
    Status plain(std::string& field) {
        const std::size_t end = std::min(text_.find_first_of(",\"\r\n", at_), text_.size());
        field = text_.substr(at_, end - at_);
        at_ = end;
        if (at_ < text_.size() && text_[at_] == '"') return fail("csv.bad_quote", where() + ": inside " + shown(field));
        return {};
    }
    Status quoted(std::string& field) {
        ++at_;
        for (;;) {
            const std::size_t end = text_.find('"', at_);
            if (end == std::string_view::npos) return fail("csv.bad_quote", where() + ": a field has no end");
            field += text_.substr(at_, end - at_);
            at_ = end + 1;
            if (at_ == text_.size() || text_[at_] != '"') break;
            field += text_[at_++];
        }
        next_line_ += static_cast<std::uint64_t>(std::count(field.begin(), field.end(), '\n'));
        if (at_ < text_.size() && std::string_view(",\r\n").find(text_[at_]) == std::string_view::npos)
            return fail("csv.bad_quote", where() + ": text behind " + shown(field));
        return {};
    }
    Status end_line() {
        ++next_line_;
        if (at_ == text_.size()) return {};
        if (text_[at_] == '\r' && text_.substr(at_ + 1, 1) != "\n") return fail("csv.bad_line_end", where());
        at_ += text_[at_] == '\r' ? 2 : 1;
        return {};
    }

    std::string_view text_;
    std::size_t most_fields_;
    std::size_t at_ = 0;
    std::uint64_t line_ = 0;
    std::uint64_t next_line_ = 1;
};

// Where the columns are.
struct Layout {
    std::size_t fields = 0;
    std::vector<std::size_t> features;
    std::vector<std::size_t> targets;
};

Status check_name(const std::string& name, const CsvLimits& limits) {
    // JSON would take another name for one that is no UTF-8.
    const auto kept = json::parse(json::Value(name).dump());
    if (name.size() > limits.name_bytes || has_controls(name) || !kept || *kept != json::Value(name))
        return fail("csv.bad_name", shown(name));
    return {};
}

Expected<Layout> lay_out(const std::vector<std::string>& header, CsvTable& table, const CsvLimits& limits) {
    Layout layout;
    layout.fields = header.size();
    std::set<std::string_view> names;
    for (const std::string& name : header) {
        if (name.empty()) return fail("csv.bad_name", "a column without a name");
        QUERN_CHECK(check_name(name, limits));
        if (!names.insert(name).second) return fail("csv.duplicate_column", name);
    }
    std::vector<bool> is_target(header.size());
    for (const std::string& name : table.target_columns) {
        const auto place = static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin());
        if (place == header.size()) return fail("csv.no_such_column", name);
        if (is_target[place]) return fail("csv.duplicate_column", name);
        is_target[place] = true;
        layout.targets.push_back(place);
    }
    for (std::size_t i = 0; i < header.size(); ++i) {
        if (is_target[i]) continue;
        layout.features.push_back(i);
        table.columns.push_back(header[i]);
    }
    if (layout.features.empty()) return fail("csv.no_features", "every column is a target");
    return layout;
}

std::optional<std::int32_t> whole_in(std::string_view field) {
    std::int32_t value = 0;
    const auto read = std::from_chars(field.data(), field.data() + field.size(), value);
    if (read.ec != std::errc() || read.ptr != field.data() + field.size()) return std::nullopt;
    return value;
}

Expected<std::uint32_t> number_in(std::string_view field) {
    float value = 0;
    const auto read = std::from_chars(field.data(), field.data() + field.size(), value);
    if (read.ptr != field.data() + field.size() || read.ec == std::errc::invalid_argument)
        return fail(kBadNumber, shown(field));
    if (read.ec != std::errc()) return fail("csv.out_of_range", shown(field));
    const auto word = std::bit_cast<std::uint32_t>(value);
    if ((word >> 23 & 0xff) == 0xff) return fail("csv.not_finite", shown(field));
    return word;
}

void append_word(Bytes& bytes, std::uint32_t word, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) bytes.push_back(static_cast<std::uint8_t>(word >> 8 * i));
}

// `take` for each record behind the header.
template <class Take>
Status for_records(std::string_view text, const Layout& layout, const CsvLimits& limits, const Take& take) {
    Records records(text, limits.columns);
    std::vector<std::string> fields;
    QUERN_CHECK(records.next(fields));
    while (!records.at_end()) {
        QUERN_CHECK(records.next(fields));
        if (fields.size() != layout.fields)
            return fail("csv.wrong_columns", records.where() + ": " + std::to_string(fields.size()) + " fields, not " +
                                                 std::to_string(layout.fields));
        const Status taken = take(fields);
        if (!taken) return detailed(taken.error(), records.where() + ": " + taken.error().detail);
    }
    return {};
}

// What the targets are: f32, i32, or nullopt of classes.
Expected<std::optional<DataType>> kind_of_targets(std::string_view text, const Layout& layout,
                                                  const CsvLimits& limits) {
    bool are_whole = true;
    bool are_numbers = true;
    std::optional<Error> odd;  // of a number that f32 lacks
    QUERN_CHECK(for_records(text, layout, limits, [&](const std::vector<std::string>& fields) -> Status {
        for (const std::size_t column : layout.targets) {
            are_whole = are_whole && whole_in(fields[column]);
            if (are_whole) continue;
            const auto number = number_in(fields[column]);
            if (number) continue;
            if (number.error().name == kBadNumber)
                are_numbers = false;
            else if (!odd)
                odd = number.error();
        }
        return {};
    }));
    if (are_whole) return DataType::i32;
    if (are_numbers && odd) return fail(std::move(*odd));
    if (are_numbers) return DataType::f32;
    if (layout.targets.size() != 1) return fail("csv.many_class_columns", "only a single target may be a class");
    return std::optional<DataType>();
}

Status find_classes(std::string_view text, const Layout& layout, const CsvLimits& limits, CsvTable& table) {
    std::set<std::string> classes;
    QUERN_CHECK(for_records(text, layout, limits, [&](const std::vector<std::string>& fields) -> Status {
        const std::string& name = fields[layout.targets.front()];
        if (classes.contains(name)) return {};
        QUERN_CHECK(check_name(name, limits));
        if (classes.size() == limits.classes)
            return fail("csv.too_many_classes", "more than " + std::to_string(limits.classes));
        classes.insert(name);
        return {};
    }));
    table.classes.assign(classes.begin(), classes.end());
    return {};
}

}  // namespace

Expected<CsvTable> read_csv(std::string_view text, const std::vector<std::string>& targets, const CsvLimits& limits) {
    CsvTable table;
    table.target_columns = targets;
    Records head(text, limits.columns);
    if (head.at_end()) return fail("csv.no_rows", "an empty file");
    std::vector<std::string> header;
    QUERN_CHECK(head.next(header));
    QUERN_TRY(const Layout layout, lay_out(header, table, limits));
    if (head.at_end()) return fail("csv.no_rows", "a header alone");
    QUERN_TRY(const std::optional<DataType> kind, kind_of_targets(text, layout, limits));
    if (!kind) QUERN_CHECK(find_classes(text, layout, limits, table));
    table.targets.type = kind ? *kind : table.classes.size() <= kMostU8Classes ? DataType::u8 : DataType::u16;
    std::uint64_t rows = 0;
    const auto target_word = [&](const std::string& field) -> Expected<std::uint32_t> {
        if (!kind)
            return static_cast<std::uint32_t>(std::lower_bound(table.classes.begin(), table.classes.end(), field) -
                                              table.classes.begin());
        if (const auto whole = whole_in(field); *kind == DataType::i32 && whole)
            return static_cast<std::uint32_t>(*whole);
        return number_in(field);
    };
    QUERN_CHECK(for_records(text, layout, limits, [&](const std::vector<std::string>& fields) -> Status {
        for (const std::size_t column : layout.features) {
            const auto word = number_in(fields[column]);
            if (!word) return detailed(word.error(), header[column] + ": " + word.error().detail);
            append_word(table.features.elements, *word, sizeof(std::uint32_t));
        }
        for (const std::size_t column : layout.targets) {
            QUERN_TRY(const std::uint32_t word, target_word(fields[column]));
            append_word(table.targets.elements, word, vm::tensor::element_bytes(table.targets.type));
        }
        ++rows;
        return {};
    }));
    table.features.shape = {rows, layout.features.size()};
    table.targets.shape = {rows};
    if (layout.targets.size() > 1) table.targets.shape.push_back(layout.targets.size());
    return table;
}

}  // namespace quern::compute::program
