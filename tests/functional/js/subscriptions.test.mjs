// viem's and ethers' subscriptions over WebSocket, against a running node: QUERN_RPC_URL, QUERN_WS_URL,
// QUERN_KEY_VIEM_WS and QUERN_KEY_ETHERS_WS (prefunded private keys of this file alone). Prints TAP.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as viem from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import * as ethers from 'ethers'

const url = process.env.QUERN_RPC_URL
const wsUrl = process.env.QUERN_WS_URL
const recipient = '0x00000000000000000000000000000000000000aa'
const roles = '0x0000000000000000000000000000000000005102'
const bondAbi = viem.parseAbi([
  'function bond(uint8 role, uint256 amount)',
  'event BondChanged(address indexed account, uint8 role, uint256 bonded, uint256 unbonding)',
])
const verifier = 2

const chain = viem.defineChain({
  id: 7878,
  name: 'Quern devnet',
  nativeCurrency: { name: 'Quern', symbol: 'QRN', decimals: 18 },
  rpcUrls: { default: { http: [url], webSocket: [wsUrl] } },
})
const account = privateKeyToAccount(process.env.QUERN_KEY_VIEM_WS)
const transport = viem.webSocket(wsUrl, { keepAlive: false, reconnect: false })
const reader = viem.createPublicClient({ chain, transport })
const writer = viem.createWalletClient({ chain, account, transport })
const provider = new ethers.WebSocketProvider(wsUrl, undefined, { cacheTimeout: -1 })
const wallet = new ethers.Wallet(process.env.QUERN_KEY_ETHERS_WS, provider)

const timeoutMs = 30_000
// Resolves when `isDone` says so after one of the events that `start(onEvent, onError)` reports; start gives the end.
function until(start, isDone) {
  return new Promise((resolve, reject) => {
    const events = []
    let stop
    const timer = setTimeout(() => finish(reject, new Error(`timeout; events: ${viem.stringify(events)}`)), timeoutMs)
    const finish = async (how, value) => {
      clearTimeout(timer)
      await stop?.()
      how(value)
    }
    stop = start((event) => {
      events.push(event)
      try {
        if (isDone(events)) finish(resolve, events)
      } catch (error) {
        finish(reject, error)
      }
    }, (error) => finish(reject, error))
  })
}
const successive = (numbers) => numbers.every((n, i) => i === 0 || n === numbers[i - 1] + 1n)

test('viem watches blocks', async () => {
  const blocks = await until(
    (onBlock, onError) => reader.watchBlocks({ onBlock, onError }), (events) => events.length === 5)
  assert.ok(successive(blocks.map((block) => block.number)))
  const again = await reader.getBlock({ blockNumber: blocks[0].number })
  assert.equal(again.hash, blocks[0].hash)
})

test('viem watches block numbers', async () => {
  const numbers = await until(
    (onBlockNumber, onError) => reader.watchBlockNumber({ onBlockNumber, onError }), (events) => events.length === 4)
  assert.ok(successive(numbers))
})

test('viem watches an event with an indexed argument', async () => {
  let hash
  const logs = await until((onEvent, onError) => {
    const stop = reader.watchContractEvent({
      address: roles, abi: bondAbi, eventName: 'BondChanged', args: { account: account.address },
      onLogs: (some) => some.forEach(onEvent), onError,
    })
    setTimeout(() => writer.writeContract({
      address: roles, abi: bondAbi, functionName: 'bond', args: [verifier, viem.parseEther('2')],
    }).then((sent) => {
      hash = sent
      onEvent({})  // the log may have come before
    }, onError), 300)
    return stop
  }, (events) => hash !== undefined && events.some((log) => log.transactionHash === hash))
  const log = logs.find((one) => one.transactionHash === hash)
  assert.equal(log.args.account, account.address)
  assert.equal(log.args.bonded, viem.parseEther('2'))
  assert.equal(log.removed, false)
  const found = await reader.getLogs({ blockHash: log.blockHash, address: roles })
  assert.ok(found.some((one) => one.logIndex === log.logIndex && one.transactionHash === hash))
})

test('viem does not hear of other addresses and topics', async () => {
  const wrong = []
  const onError = (error) => wrong.push(error)
  const elsewhere = reader.watchEvent({ address: recipient, onLogs: (logs) => wrong.push(...logs), onError })
  const stranger = reader.watchContractEvent({
    address: roles, abi: bondAbi, eventName: 'BondChanged', args: { account: recipient },
    onLogs: (logs) => wrong.push(...logs), onError,
  })
  const hash = await writer.writeContract({
    address: roles, abi: bondAbi, functionName: 'bond', args: [verifier, viem.parseEther('1')],
  })
  const receipt = await reader.waitForTransactionReceipt({ hash, timeout: timeoutMs })
  assert.ok(receipt.logs.length > 0)
  await until((onBlockNumber, failed) => reader.watchBlockNumber({ onBlockNumber, onError: failed }),
              (events) => events.length === 2)
  elsewhere()
  stranger()
  assert.deepEqual(wrong, [])
})

test('viem watches pending transactions', async () => {
  let hash
  const seen = await until((onEvent, onError) => {
    const stop = reader.watchPendingTransactions({ onTransactions: (hashes) => hashes.forEach(onEvent), onError })
    setTimeout(() => writer.sendTransaction({ to: recipient, value: 5n }).then((sent) => {
      hash = sent
      onEvent(sent)
    }, onError), 300)
    return stop
  }, (events) => hash !== undefined && events.filter((one) => one === hash).length === 2)
  assert.ok(seen.includes(hash))
})

test('calls and errors go over the same connection', async () => {
  assert.equal(await reader.getChainId(), chain.id)
  assert.ok((await reader.getBalance({ address: account.address })) > 0n)
  await assert.rejects(reader.request({ method: 'eth_nothing' }), /does not exist/)
  await assert.rejects(reader.request({ method: 'eth_subscribe', params: ['nothing'] }), /subscription in eth namespace/)
  await assert.rejects(reader.request({ method: 'admin_stop' }), /cookie/)
  const answer = await (await fetch(url, {
    method: 'POST', headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_subscribe', params: ['newHeads'] }),
  })).json()
  assert.match(answer.error.message, /^notifications not supported/)
})

test('ethers hears of blocks', async () => {
  const numbers = await until((onEvent) => {
    provider.on('block', onEvent)
    return () => provider.off('block', onEvent)
  }, (events) => events.length === 5)
  assert.ok(successive(numbers.map(BigInt)))
})

test('ethers hears of logs', async () => {
  const filter = { address: roles, topics: [ethers.id('BondChanged(address,uint8,uint256,uint256)'),
                                            ethers.zeroPadValue(wallet.address, 32)] }
  const contract = new ethers.Contract(roles, ['function bond(uint8 role, uint256 amount)'], wallet)
  let hash
  const logs = await until((onEvent, onError) => {
    provider.on(filter, onEvent)
    setTimeout(() => contract.bond(verifier, ethers.parseEther('2')).then((sent) => {
      hash = sent.hash
      onEvent({}) // the log may have come before
    }, onError), 300)
    return () => provider.off(filter, onEvent)
  }, (events) => hash !== undefined && events.some((log) => log.transactionHash === hash))
  assert.equal(logs.find((log) => log.transactionHash === hash).address, roles)
})

test('ethers hears of pending transactions', async () => {
  let hash
  await until((onEvent, onError) => {
    provider.on('pending', onEvent)
    setTimeout(() => wallet.sendTransaction({ to: recipient, value: 6n }).then((sent) => {
      hash = sent.hash
      onEvent(hash)
    }, onError), 300)
    return () => provider.off('pending', onEvent)
  }, (events) => hash !== undefined && events.filter((one) => one === hash).length === 2)
  const receipt = await provider.waitForTransaction(hash, 1, timeoutMs)
  assert.equal(receipt.status, 1)
})

test('close', async () => {
  await provider.send('net_version', [])  // after the answers to the unsubscriptions, for which ethers does not wait
  await provider.destroy()
  const { socket } = await reader.transport.getRpcClient()
  socket.close()
})

test('viem works over ws:// on the HTTP port', async () => {
  const samePort = viem.webSocket(url.replace(/^http/, 'ws'), { keepAlive: false, reconnect: false })
  const client = viem.createPublicClient({ chain, transport: samePort })
  assert.equal(await client.getChainId(), chain.id)
  const numbers = await until(
    (onBlockNumber, onError) => client.watchBlockNumber({ onBlockNumber, onError }), (events) => events.length === 2)
  assert.ok(successive(numbers))
  assert.ok(await client.getBalance({ address: account.address }) > 0n)
  ;(await client.transport.getRpcClient()).close()
})
