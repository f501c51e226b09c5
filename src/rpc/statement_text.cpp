#include "rpc/statement_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>
#include <map>

#include "base/uint256.h"
#include "chain/types/amount.h"
#include "rpc/balance.h"

namespace quern::rpc {
namespace {

constexpr std::size_t kMaxStatementPages = 10'000;  // a node that never comes to an end must not fill the memory

tl::unexpected<Error> bad_answer(const Error& error) { return fail("statement.bad_answer", error.to_string()); }

// Decimal grains, negative ones with a sign.
Expected<Balance> read_balance(std::string_view text) {
    const bool negative = text.starts_with('-');
    QUERN_TRY(const Uint256 grains, Uint256::from_decimal(negative ? text.substr(1) : text));
    Balance balance;
    negative ? balance.take(grains) : balance.add(grains);
    return balance;
}

std::string utc(std::uint64_t seconds) {
    const auto time = static_cast<std::time_t>(seconds);
    std::tm parts{};
    if (::gmtime_r(&time, &parts) == nullptr) return std::to_string(seconds);
    std::array<char, 32> text{};
    return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string text_of(const json::Value& object, std::string_view name) {
    const json::Value* value = object.find(name);
    if (value == nullptr || value->is_null()) return {};
    const auto string = value->as_string();
    std::string text = string ? std::string(*string) : value->dump();
    // Whoever answers is not to write to a terminal, or into a spreadsheet, but letters, digits and what joins them: so
    // there is nothing to be quoted, either.
    std::erase_if(text,
                  [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '.'; });
    return text;
}

// One movement, as a line shows it.
struct Line {
    std::string time, block, task, role, category, reason, kind, amount, transaction, from;
    Balance balance;  // what it changed of it
    Balance bond;
};

Expected<Line> read_line(const json::Value& movement) {
    Line line;
    QUERN_TRY(const std::uint64_t seconds, movement.get_u64("timestamp"));
    line.time = utc(seconds);
    QUERN_TRY(const std::uint64_t block, movement.get_u64("block"));
    line.block = std::to_string(block);
    for (const auto& [name, target] :
         {std::pair("task", &line.task), std::pair("role", &line.role), std::pair("category", &line.category),
          std::pair("reason", &line.reason), std::pair("kind", &line.kind), std::pair("transaction", &line.transaction),
          std::pair("from", &line.from)})
        *target = text_of(movement, name);
    QUERN_TRY(const std::string_view amount, movement.get_string("amount"));
    QUERN_TRY(const Uint256 grains, Uint256::from_hex_quantity(amount));
    line.amount = grains.to_decimal();
    QUERN_TRY(const std::string_view balance, movement.get_string("balanceChange"));
    QUERN_TRY(const std::string_view bond, movement.get_string("bondChange"));
    QUERN_TRY(line.balance, read_balance(balance));
    QUERN_TRY(line.bond, read_balance(bond));
    return line;
}

// The movements of all pages. Error: statement.bad_answer.
Expected<std::vector<Line>> read_lines(const std::vector<json::Value>& pages) {
    std::vector<Line> lines;
    for (const json::Value& page : pages) {
        const auto movements = page.get_array("movements");
        if (!movements) return bad_answer(movements.error());
        for (const json::Value& movement : *movements) {
            auto line = read_line(movement);
            if (!line) return bad_answer(line.error());
            lines.push_back(std::move(*line));
        }
    }
    return lines;
}

void put(std::string& out, const std::string& text, std::size_t width, bool right = false) {
    const std::string space(width > text.size() ? width - text.size() : 0, ' ');
    out += right ? space + text : text + space;
    out += "  ";
}

void end_line(std::string& out) {
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
}

// What the account held before the first page and after the last one, and the movements' sum in between.
Expected<std::string> agreement(const std::vector<json::Value>& pages, const Balance& listed) {
    std::optional<std::string> before;
    std::string after;
    bool agree = true;
    for (const json::Value& page : pages) {
        const json::Value* check = page.find("check");
        if (check == nullptr || check->is_null()) continue;
        QUERN_TRY(const json::Value* balance, check->get_object("balance"));
        QUERN_TRY(const std::string_view first, balance->get_string("before"));
        QUERN_TRY(const std::string_view last, balance->get_string("after"));
        QUERN_TRY(const bool page_agrees, check->get_bool("agrees"));
        if (!before) before = first;
        after = last;
        agree = agree && page_agrees;
    }
    if (!before) return std::string("nothing\n");
    QUERN_TRY(const std::uint64_t since, pages.front().get_u64("since"));
    QUERN_TRY(const std::uint64_t from, pages.front().get_u64("fromBlock"));
    const bool whole = since <= std::max<std::uint64_t>(from, 1);
    QUERN_TRY(const Uint256 opening, Uint256::from_hex_quantity(*before));
    QUERN_TRY(const Uint256 closing, Uint256::from_hex_quantity(after));
    Balance unlisted;
    unlisted.add(closing);
    unlisted.take(opening);
    unlisted.take(listed);
    return "balance before " + chain::types::in_qrn(opening) + ", after " + chain::types::in_qrn(closing) +
           ", listed " + listed.qrn() + ", not listed (transfers, tips) " + unlisted.qrn() + "\n" +
           (whole
                ? ""
                : "The node's index begins with block " + std::to_string(since) + ": nothing before it is listed.\n") +
           (!(agree && unlisted.is_zero())
                ? "The list does not explain all of it: see \"check\" of account_statement.\n"
            : whole ? "The list explains every grain of balance and bonds.\n"
                    : "");
}

Expected<std::string> remarks(const std::vector<json::Value>& pages, const std::vector<Line>& lines) {
    Balance listed;
    for (const Line& line : lines) listed.add(line.balance);
    auto agrees = agreement(pages, listed);
    if (!agrees) return bad_answer(agrees.error());
    return agrees;
}

}  // namespace

Expected<std::string> statement_remarks(const std::vector<json::Value>& pages) {
    QUERN_TRY(const auto lines, read_lines(pages));
    return remarks(pages, lines);
}

Expected<std::vector<json::Value>> fetch_statement(const Ask& ask, const StatementQuery& query) {
    std::vector<json::Value> pages;
    json::Value from = query.from ? json::Value(*query.from) : json::Value(0);
    std::uint64_t reached = query.from.value_or(0);
    while (pages.size() < kMaxStatementPages) {
        const json::Value to = query.to ? json::Value(*query.to) : json::Value();
        QUERN_TRY(auto answer, ask("account_statement", json::Value::array({query.address, from, to, 2'000})));
        if (!answer) return fail("statement.refused", answer.error().message);
        pages.push_back(std::move(*answer));
        const json::Value* next = pages.back().find("next");
        if (next == nullptr) return bad_answer(Error{"json.missing_field", "next"});
        if (next->is_null()) return pages;
        QUERN_TRY(const std::uint64_t at, pages.back().get_u64("next"));
        if (at <= reached) return fail("statement.bad_answer", "a page that leads nowhere");
        reached = at;
        from = *next;
    }
    return fail("statement.bad_answer", "more than " + std::to_string(kMaxStatementPages) + " pages");
}

Expected<std::string> statement_csv(const std::vector<json::Value>& pages) {
    QUERN_TRY(const auto lines, read_lines(pages));
    std::string out =
        "time,block,task,role,category,reason,kind,balance_change_qrn,bond_change_qrn,amount_grains,"
        "balance_change_grains,bond_change_grains,transaction,from\r\n";
    for (const Line& line : lines) {
        for (const std::string& each :
             {line.time, line.block, line.task, line.role, line.category, line.reason, line.kind, line.balance.qrn(),
              line.bond.qrn(), line.amount, line.balance.grains(), line.bond.grains(), line.transaction})
            out += each + ",";
        out += line.from + "\r\n";
    }
    return out;
}

Expected<std::string> statement_table(const std::vector<json::Value>& pages) {
    struct Total {
        std::uint64_t count = 0;
        Balance balance;
        Balance bond;
    };
    QUERN_TRY(const auto lines, read_lines(pages));
    std::size_t wide = std::string_view("balance").size();
    for (const Line& line : lines) wide = std::max({wide, line.balance.qrn().size(), line.bond.qrn().size()});
    std::string out;
    const auto put_line = [&](const Line& line, const std::string& balance, const std::string& bond) {
        put(out, line.time, 20);
        put(out, line.block, 8, true);
        put(out, line.task, 6, true);
        put(out, line.role, 13);
        put(out, line.category, 16);
        put(out, line.reason, 18);
        put(out, balance, wide, true);
        put(out, bond, wide, true);
        end_line(out);
    };
    put_line({"time", "block", "task", "role", "category", "reason", {}, {}, {}, {}, {}, {}}, "balance", "bond");
    std::map<std::string, Total> totals;
    for (const Line& line : lines) {
        put_line(line, line.balance.qrn(), line.bond.qrn());
        Total& total = totals[line.category];
        ++total.count;
        total.balance.add(line.balance);
        total.bond.add(line.bond);
    }
    out += "\nTotals, in QRN:\n";
    for (const auto& [category, total] : totals) {
        put(out, category, 16);
        put(out, std::to_string(total.count), 8, true);
        put(out, total.balance.qrn(), wide, true);
        put(out, total.bond.qrn(), wide, true);
        end_line(out);
    }
    QUERN_TRY(const std::string told, remarks(pages, lines));
    return out + "\n" + told;
}

}  // namespace quern::rpc
