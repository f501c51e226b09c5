// What quern-cli makes of account_statement: the whole of it over its pages, as CSV for spreadsheets and as a table for
// people. Pure but for what `ask` does; thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rpc/error.h"

namespace quern::rpc {

struct StatementQuery {
    std::string address;
    std::optional<std::uint64_t> from;  // blocks; absent: the first and the newest
    std::optional<std::uint64_t> to;
};
// As Client::call.
using Ask = std::function<Expected<Result>(std::string_view method, json::Value params)>;

// The pages of a statement, in order. Errors: those of `ask`; statement.refused (by the node, for what the detail
// says), statement.bad_answer.
[[nodiscard]] Expected<std::vector<json::Value>> fetch_statement(const Ask& ask, const StatementQuery& query);

// RFC 4180, with a header: time (UTC), block, task, role, category, reason, kind, the changes of balance and bond in
// QRN, amount and changes in grains, transaction, sender. Error: statement.bad_answer.
[[nodiscard]] Expected<std::string> statement_csv(const std::vector<json::Value>& pages);
// How much of the account's change the list explains, and whether something may be missing, for people. Error:
// statement.bad_answer.
[[nodiscard]] Expected<std::string> statement_remarks(const std::vector<json::Value>& pages);
// For people, with totals and the remarks. Error: statement.bad_answer.
[[nodiscard]] Expected<std::string> statement_table(const std::vector<json::Value>& pages);

}  // namespace quern::rpc
