// viem and ethers as they come from npm, against a running node: QUERN_RPC_URL, QUERN_KEY_VIEM and QUERN_KEY_ETHERS
// (prefunded private keys), QUERN_KEY_EMPTY (an account without money), QUERN_NATIVE_TX (the hash of a finalized
// type 0x51 bond). Node's own test runner; prints TAP.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as viem from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import * as ethers from 'ethers'

const url = process.env.QUERN_RPC_URL
const recipient = '0x00000000000000000000000000000000000000aa'
const reserved = {
  roles: '0x0000000000000000000000000000000000005102',
  tasks: '0x0000000000000000000000000000000000005103',
}
const chainId = 7878
const bondAbi = viem.parseAbi([
  'function bond(uint8 role, uint256 amount)', 'function cancel(bytes payload)', 'function declareCapacity(bytes payload)',
])
const verifier = 2
// A payload of the market: the RLP list of a version and its fields.
const payload = (...fields) => viem.toRlp(fields.map((field) => (field === 0 ? '0x' : viem.toHex(field))))

const chain = viem.defineChain({
  id: chainId,
  name: 'Quern devnet',
  nativeCurrency: { name: 'Quern', symbol: 'QRN', decimals: 18 },
  rpcUrls: { default: { http: [url] } },
})
const account = privateKeyToAccount(process.env.QUERN_KEY_VIEM)
const poor = privateKeyToAccount(process.env.QUERN_KEY_EMPTY)
const reader = viem.createPublicClient({ chain, transport: viem.http(url), pollingInterval: 100 })
const writer = viem.createWalletClient({ chain, account, transport: viem.http(url) })
// Blocks come faster than the 250 ms for which ethers remembers answers.
const provider = new ethers.JsonRpcProvider(url, undefined, { polling: true, pollingInterval: 100, cacheTimeout: -1 })
const wallet = new ethers.Wallet(process.env.QUERN_KEY_ETHERS, provider)

async function post(body) {
  const response = await fetch(url, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body),
  })
  return response.json()
}

// keccak256(rlp(header)) from the fields that JSON-RPC shows (Prague's header).
function headerHash(block) {
  const number = (value) => (BigInt(value) === 0n ? '0x' : ethers.toBeHex(BigInt(value)))
  return ethers.keccak256(ethers.encodeRlp([
    block.parentHash, block.sha3Uncles, block.miner, block.stateRoot, block.transactionsRoot, block.receiptsRoot,
    block.logsBloom, number(block.difficulty), number(block.number), number(block.gasLimit), number(block.gasUsed),
    number(block.timestamp), block.extraData, block.mixHash, block.nonce, number(block.baseFeePerGas),
    block.withdrawalsRoot, number(block.blobGasUsed), number(block.excessBlobGas), block.parentBeaconBlockRoot,
    block.requestsHash,
  ]))
}

test('viem reads the chain', async () => {
  assert.equal(await reader.getChainId(), chainId)
  assert.ok((await reader.getBalance({ address: account.address })) > 10n ** 18n)
  assert.equal(await reader.getTransactionCount({ address: account.address }), 0)
  assert.equal(await reader.getCode({ address: reserved.tasks }), '0x60006000fd')
  assert.equal(await reader.getCode({ address: recipient }), undefined)
  assert.match(await reader.request({ method: 'web3_clientVersion' }), /^Quern\/v/)
  assert.equal(await reader.request({ method: 'net_version' }), String(chainId))
  assert.equal(await reader.request({ method: 'eth_syncing' }), false)
  const fees = await reader.estimateFeesPerGas()
  assert.ok(fees.maxFeePerGas > fees.maxPriorityFeePerGas)
  assert.ok((await reader.getGasPrice()) > 0n)
  const history = await reader.getFeeHistory({ blockCount: 4, rewardPercentiles: [25, 75] })
  assert.equal(history.baseFeePerGas.length, history.gasUsedRatio.length + 1)
  assert.equal(history.reward.length, history.gasUsedRatio.length)
})

test('a block is what its hash says', async () => {
  for (const tag of ['0x0', 'latest', 'safe', 'finalized', 'earliest']) {
    const block = (await post({ jsonrpc: '2.0', id: 1, method: 'eth_getBlockByNumber', params: [tag, false] })).result
    assert.equal(headerHash(block), block.hash)
  }
})

for (const type of ['legacy', 'eip2930', 'eip1559']) {
  test(`viem sends a transfer of type ${type}`, async () => {
    const value = 12345n
    const before = await reader.getBalance({ address: recipient })
    const extra = type === 'eip2930' ? { accessList: [{ address: recipient, storageKeys: [] }] } : {}
    const hash = await writer.sendTransaction({ to: recipient, value, type, ...extra })
    const receipt = await reader.waitForTransactionReceipt({ hash, timeout: 30_000 })
    assert.equal(receipt.status, 'success')
    assert.equal(receipt.type, type)
    assert.equal(receipt.gasUsed, type === 'eip2930' ? 23400n : 21000n)
    assert.equal(await reader.getBalance({ address: recipient }), before + value)
    const transaction = await reader.getTransaction({ hash })
    assert.equal(transaction.type, type)
    assert.equal(transaction.from, account.address.toLowerCase())
    assert.equal(transaction.value, value)
    const block = await reader.getBlock({ blockHash: receipt.blockHash, includeTransactions: true })
    assert.equal(block.transactions[receipt.transactionIndex].hash, hash)
    assert.equal(viem.keccak256(viem.toRlp([])), block.sha3Uncles)
    const raw = await post({ jsonrpc: '2.0', id: 1, method: 'eth_getBlockByHash', params: [receipt.blockHash, false] })
    assert.equal(headerHash(raw.result), receipt.blockHash)
  })
}

test('viem bonds through the reserved address and finds the log', async () => {
  const amount = viem.parseEther('2')
  const request = {
    address: reserved.roles, abi: bondAbi, functionName: 'bond', args: [verifier, amount], account,
  }
  await reader.simulateContract(request)
  assert.ok((await reader.estimateContractGas(request)) > 21_000n)
  const hash = await writer.writeContract(request)
  const receipt = await reader.waitForTransactionReceipt({ hash, timeout: 30_000 })
  assert.equal(receipt.status, 'success')
  assert.ok(receipt.logs.length > 0)
  assert.equal(receipt.logs[0].address, reserved.roles)
  const logs = await reader.getLogs({ address: reserved.roles, fromBlock: receipt.blockNumber, toBlock: 'latest' })
  assert.ok(logs.some((log) => log.transactionHash === hash))
  const mine = await reader.request({
    method: 'eth_getLogs',
    params: [{ fromBlock: '0x0', topics: [receipt.logs[0].topics[0], viem.pad(account.address, { size: 32 }).toLowerCase()] }],
  })
  assert.equal(mine.length, 1)
  const bonds = await reader.request({ method: 'stake_roles', params: [account.address] })
  assert.equal(BigInt(bonds[0].bonded), amount)
})

test('viem calls the market with a payload that has a version', async () => {
  const hash = await writer.writeContract({
    address: reserved.roles, abi: bondAbi, functionName: 'declareCapacity', args: [payload(1, verifier, 0, 40, 41, 2048)],
  })
  const receipt = await reader.waitForTransactionReceipt({ hash, timeout: 30_000 })
  assert.equal(receipt.status, 'success')
  const [bond] = await reader.request({ method: 'stake_roles', params: [account.address] })
  assert.deepEqual(bond.capacity, { stepWork: 0, speedClass: 40, bandwidthClass: 41, memoryMib: 2048 })
})

test('viem sees why a call would fail', async () => {
  const cancel = (data) => (
    reader.simulateContract({ address: reserved.tasks, abi: bondAbi, functionName: 'cancel', args: [data], account }))
  const reason = (wanted) => (error) => {
    const reverted = error.walk((cause) => cause instanceof viem.ContractFunctionRevertedError)
    assert.match(reverted.reason, wanted)
    return true
  }
  await assert.rejects(cancel(payload(1, 999)), reason(/^task\.unknown/))
  await assert.rejects(cancel(payload(2, 999)), reason(/^record\.unknown_version/))
  await assert.rejects(reader.call({ to: reserved.tasks, data: '0x01020304' }), /reverted/)
  await assert.rejects(reader.estimateGas({ account, data: '0x6001600155' }), /contract creation is not active yet/)
  await assert.rejects(writer.deployContract({ abi: [], bytecode: '0x6001600155', gas: 100_000n }),
                       /contract creation is not active yet/)
})

test('viem recognises the usual refusals', async () => {
  const kinds = (kind) => (error) => error.walk((cause) => cause instanceof kind) !== null
  await assert.rejects(writer.sendTransaction({ to: recipient, value: 1n, nonce: 0, gas: 21_000n }),
                       kinds(viem.NonceTooLowError))
  await assert.rejects(writer.sendTransaction({ to: recipient, value: 10n ** 30n, gas: 21_000n }),
                       kinds(viem.InsufficientFundsError))
  await assert.rejects(writer.sendTransaction({ to: recipient, value: 1n, gas: 20_000n }),
                       kinds(viem.IntrinsicGasTooLowError))
  const empty = viem.createWalletClient({ chain, account: poor, transport: viem.http(url) })
  await assert.rejects(empty.sendTransaction({ to: recipient, value: 1n, gas: 21_000n }),
                       kinds(viem.InsufficientFundsError))
})

test('viem batches calls', async () => {
  const batching = viem.createPublicClient({ chain, transport: viem.http(url, { batch: { batchSize: 50, wait: 20 } }) })
  const answers = await Promise.all([
    ...Array.from({ length: 30 }, () => batching.getChainId()), batching.getBlockNumber({ cacheTime: 0 }),
  ])
  assert.ok(answers.slice(0, 30).every((id) => id === chainId))
})

test('a native transaction is readable for both', async () => {
  const hash = process.env.QUERN_NATIVE_TX
  const transaction = await reader.getTransaction({ hash })
  assert.equal(transaction.type, 'eip1559')
  assert.equal(transaction.to, reserved.roles)
  const call = viem.decodeFunctionData({ abi: bondAbi, data: transaction.input })
  assert.equal(call.functionName, 'bond')
  const receipt = await reader.getTransactionReceipt({ hash })
  assert.equal(receipt.status, 'success')
  assert.equal((await provider.getTransaction(hash)).type, 2)
  assert.equal((await provider.getTransactionReceipt(hash)).status, 1)
  const block = await provider.getBlock(receipt.blockHash, true)
  assert.ok(block.prefetchedTransactions.some((one) => one.hash === hash))
})

test('ethers reads the chain', async () => {
  assert.equal((await provider.getNetwork()).chainId, BigInt(chainId))
  assert.ok((await provider.getBalance(wallet.address)) > 10n ** 18n)
  assert.equal(await provider.getTransactionCount(wallet.address), 0)
  const fees = await provider.getFeeData()
  assert.ok(fees.maxFeePerGas > 0n && fees.gasPrice > 0n)
  const block = await provider.getBlock('latest')
  assert.ok(block.number >= 0 && block.hash.length === 66)
  assert.equal(await provider.getCode(reserved.roles), '0x60006000fd')
  assert.equal(await provider.getBlock(10 ** 9), null)
})

for (const type of [0, 1, 2]) {
  test(`ethers sends a transfer of type ${type}`, async () => {
    const before = await provider.getBalance(recipient)
    const sent = await wallet.sendTransaction({ to: recipient, value: 777n, type })
    const receipt = await sent.wait(1, 30_000)
    assert.equal(receipt.status, 1)
    assert.equal(receipt.type, type)
    assert.equal(await provider.getBalance(recipient), before + 777n)
    const found = await provider.getTransaction(sent.hash)
    assert.equal(found.type, type)
    assert.equal(found.from, wallet.address)
    assert.equal(found.blockNumber, receipt.blockNumber)
  })
}

test('ethers bonds through the interface that the node describes', async () => {
  const abi = await provider.send('quern_abi', [])
  const roles = new ethers.Contract(reserved.roles, abi, wallet)
  const amount = ethers.parseEther('3')
  await roles.bond.staticCall(verifier, amount)
  const receipt = await (await roles.bond(verifier, amount)).wait(1, 30_000)
  assert.equal(receipt.status, 1)
  const logs = await provider.getLogs({ address: reserved.roles, fromBlock: receipt.blockNumber })
  assert.ok(logs.some((log) => log.transactionHash === receipt.hash))
  const bonds = await provider.send('stake_roles', [wallet.address])
  assert.equal(BigInt(bonds[0].bonded), amount)
})

test('ethers recognises the usual refusals', async () => {
  const code = (wanted) => (error) => {
    assert.equal(error.code, wanted)
    return true
  }
  await assert.rejects(wallet.sendTransaction({ to: recipient, value: 1n, nonce: 0, gasLimit: 21_000n }),
                       code('NONCE_EXPIRED'))
  await assert.rejects(wallet.sendTransaction({ to: recipient, value: 10n ** 30n, gasLimit: 21_000n }),
                       code('INSUFFICIENT_FUNDS'))
  const tasks = new ethers.Contract(reserved.tasks, ['function cancel(bytes payload)'], wallet)
  const payload = ethers.encodeRlp(['0x01', ethers.toBeHex(999)])  // version 1, the task's id
  await assert.rejects(tasks.cancel.staticCall(payload), (error) => {
    assert.equal(error.code, 'CALL_EXCEPTION')
    assert.match(error.reason, /^task\./)
    return true
  })
  await assert.rejects(new ethers.ContractFactory([], '0x6001600155', wallet).deploy({ gasLimit: 100_000n }),
                       /contract creation is not active yet/)
})

test('a batch mixes results, errors and notifications', async () => {
  const call = (id, method, params = []) => ({ jsonrpc: '2.0', id, method, params })
  const answers = await post([
    call(1, 'eth_chainId'), call('two', 'eth_nothing'), { jsonrpc: '2.0', method: 'eth_chainId' }, call(3, 'eth_getBalance'),
  ])
  assert.equal(answers.length, 3)
  assert.equal(answers[0].result, '0x1ec6')
  assert.equal(answers[1].error.code, -32601)
  assert.equal(answers[2].error.code, -32602)
  assert.equal((await post({ nonsense: true })).error.code, -32600)
})

test('close', () => provider.destroy())
