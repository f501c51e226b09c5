// Which accounts of a state test came out otherwise than the fixture says, for people. Pure; thread-safe.
#pragma once

#include "base/json.h"
#include "chain/statetest/pre_state.h"

namespace quern::chain::statetest {

// One line for each difference, with a line break before it; `expected` is {address: {nonce, balance, code, storage}}.
[[nodiscard]] std::string differences(const json::Value& expected, const PreState& state,
                                      const state::Overlay& overlay);

}  // namespace quern::chain::statetest
