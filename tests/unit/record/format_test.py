"""Decodes a trace by allocator/record/FORMAT.md alone and compares with what the C++ reader says.

Usage: format_test.py FORMAT_WRITER, where FORMAT_WRITER FOLDER writes pairs NAME.levee and NAME.txt: the
file, and what its reader
says of it, one line per fact.
"""

import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import zstandard
except ImportError:
    zstandard = None

KINDS = {"alloc": 1, "free": 2, "free_completed": 3, "record_use": 4, "kernel": 21, "lost": 24}
MASK = (1 << 64) - 1


def make_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC_TABLE = make_table()


def crc(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ CRC_TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


def unzigzag(value):
    return value >> 1 ^ -(value & 1)


def signed(value):
    value &= MASK
    return value - (1 << 64) if value >> 63 else value


class Bytes:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def varint(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def zigzag(self):
        return unzigzag(self.varint())

    def take(self, count):
        assert self.at + count <= len(self.data)
        self.at += count
        return self.data[self.at - count : self.at]

    def text(self):
        return self.take(self.varint()).decode()

    def done(self):
        return self.at == len(self.data)


def decompress(body, size):
    """One zstd frame, by the package where it is installed, else by the library that levee links."""
    if zstandard is not None:
        return zstandard.ZstdDecompressor().decompress(body, max_output_size=size)
    import ctypes

    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(max(size, 1))
    count = library.ZSTD_decompress(
        out, ctypes.c_size_t(size), bytes(body), ctypes.c_size_t(len(body))
    )
    assert count == size
    return out.raw[:size]


def file_head(data):
    assert data[:8] == b"LEVEETRC"
    version, head_bytes, slot_bytes, slot_count, text_bytes, text_crc, head_crc = (
        struct.unpack_from("<IIQQIII", data, 8)
    )
    assert version == 1 and crc(data[:40]) == head_crc
    text = data[48 : 48 + text_bytes]
    assert crc(text) == text_crc
    facts = {}
    for line in text.decode().splitlines():
        key, value = line.split("=", 1)
        parts = value.split("\\\\")
        facts[key] = "\\".join(part.replace("\\n", "\n") for part in parts)
    return head_bytes, slot_bytes, slot_count, facts


class Block:
    def __init__(self, data, at):
        assert data[at : at + 4] == b"BLK1"
        self.type, self.flags = data[at + 4], data[at + 5]
        (
            self.chapter,
            self.number,
            self.first,
            self.last,
            self.kinds,
            self.count,
            summary_bytes,
            body_bytes,
            self.raw_bytes,
            body_crc,
            summary_crc,
            frame_crc,
        ) = struct.unpack_from("<QQqqQIIIIIII", data, at + 8)
        assert crc(data[at : at + 72]) == frame_crc
        self.summary = data[at + 80 : at + 80 + summary_bytes]
        stored = data[at + 80 + summary_bytes : at + 80 + summary_bytes + body_bytes]
        assert crc(self.summary) == summary_crc and crc(stored) == body_crc
        self.body = decompress(stored, self.raw_bytes) if self.flags & 1 else stored
        assert len(self.body) == self.raw_bytes
        self.bytes_on_disk = (80 + summary_bytes + body_bytes + 7) // 8 * 8


def blocks_of(data):
    head_bytes, slot_bytes, slot_count, _ = file_head(data)
    blocks = []
    for slot in range(head_bytes, len(data), slot_bytes):
        at, chapter = slot, None
        while at + 80 <= min(len(data), slot + slot_bytes) and data[at : at + 4] == b"BLK1":
            block = Block(data, at)
            if chapter is None:
                assert block.type == 1
                chapter = block.chapter
                assert slot_count == 0 or (slot - head_bytes) // slot_bytes == chapter % slot_count
            if block.chapter != chapter:
                break
            blocks.append(block)
            at += block.bytes_on_disk
    return sorted(blocks, key=lambda block: block.number)


class Column:
    def __init__(self, body):
        head = body.varint()
        self.values = Bytes(body.take(head >> 1))
        self.constant = self.values.varint() if head & 1 else None

    def next(self):
        return self.values.varint() if self.constant is None else self.constant

    def byte(self):
        return self.values.take(1)[0] if self.constant is None else self.constant

    def done(self):
        return self.values.done()


def events_of(block):
    body = Bytes(block.body)
    threads = [
        {"index": body.varint(), "due": body.varint(), "key": block.first + body.varint()}
        for _ in range(body.varint())
    ]
    kind_, thread_, time_, lane_, aux_, context_, reference_, a_, b_, rounding_ = columns = [
        Column(body) for _ in range(10)
    ]
    assert body.done()
    events, time, correlation = [], block.first, 0
    for i in range(block.count):
        kind, thread = kind_.byte(), threads[thread_.next()]
        time = signed(time + unzigzag(time_.next()))
        lane, aux, context = lane_.next(), aux_.next(), context_.next()

        def address():
            distance = reference_.next()
            if distance:
                return distance, events[i - distance]["a"]
            code = a_.next()
            if code == 1:
                return 0, a_.next()
            before = events[i - 1]["a"] if i else 0
            return 0, (before + 512 * unzigzag(code >> 1)) & MASK

        if kind in (KINDS["alloc"], KINDS["free"], KINDS["free_completed"]):
            distance, a = address()
            if distance and kind != KINDS["alloc"]:
                b = events[i - distance]["b"]
            else:
                b = b_.next()
                b |= rounding_.next() << 44
        elif kind == KINDS["record_use"]:
            _, a = address()
            b = b_.next()
        elif kind == KINDS["kernel"]:
            a = a_.next()
            correlation = (correlation + unzigzag(b_.next())) & MASK
            b = correlation
        else:
            a, b = a_.next(), b_.next()
        if kind == KINDS["lost"]:
            thread["due"] = (thread["due"] + a) & MASK
        thread["key"] = max(thread["key"], time)
        events.append(
            {
                "kind": kind,
                "thread": thread["index"],
                "sequence": thread["due"],
                "key": thread["key"],
                "time": time,
                "lane": lane,
                "aux": aux,
                "context": context,
                "a": a,
                "b": b,
            }
        )
        thread["due"] = (thread["due"] + 1) & MASK
    assert all(column.done() for column in columns)
    assert block.kinds == sum({1 << event["kind"] % 64 for event in events})
    assert block.first == min(event["time"] for event in events)
    assert block.last == max(event["time"] for event in events)
    return events


def definitions_of(block):
    body, lines = Bytes(block.body), []
    while not body.done():
        tag, fields = body.varint(), None
        fields = Bytes(body.take(body.varint()))
        if tag == 1:
            lines.append(f"context {fields.varint()} {fields.varint()} {fields.text()!r}")
        elif tag == 2:
            lines.append(
                f"lane {fields.varint()} {fields.zigzag()} {fields.varint()} {fields.varint()}"
            )
        elif tag == 3:
            lines.append(f"thread {fields.varint()} {fields.varint()} {fields.text()!r}")
        elif tag == 4:
            lines.append(f"pool {fields.varint()} {fields.varint()} {fields.varint()}")
        elif tag == 5:
            lines.append(f"device {fields.zigzag()} {fields.varint()} {fields.text()!r}")
        else:
            raise AssertionError(f"tag {tag}")
        assert fields.done()
    return lines


def keyframe_of(block):
    body, lines = Bytes(block.body), []
    before, lost, time, step = body.varint(), body.varint(), body.zigzag(), body.varint()
    lines.append(f"keyframe {block.chapter} {before} {lost} {time} {step}")
    for _ in range(body.varint()):
        values = [body.zigzag()] + [body.varint() for _ in range(6)]
        lines.append("counters " + " ".join(map(str, values)))
    for _ in range(body.varint()):
        thread, context, since = body.varint(), body.varint(), body.zigzag()
        lines.append(f"phase {thread} {context} {time + since}")
    lines.append(f"complete {body.varint()}")
    address = 0
    for _ in range(body.varint()):
        address += body.varint()
        requested, rounding = body.varint(), body.varint()
        lane, pool, context = body.varint(), body.varint(), body.varint()
        allocated, flags = time + body.zigzag(), body.varint()
        lines.append(
            f"live {address} {requested} {requested + rounding} {lane} {pool} {context} {allocated} {flags}"
        )
    assert body.done()
    return lines


class Memory:
    """How events change memory, as FORMAT.md says it; checks summaries on its way."""

    def __init__(self):
        self.lanes = {}
        self.devices = {}  # in the order of their first lane: [reserved, allocated, active]
        self.used = set()
        self.waiting = {}
        self.exact = {}

    def define(self, line):
        _, lane, device, _, _ = line.split()
        self.lanes[int(lane)] = int(device)
        self.devices.setdefault(int(device), [0, 0, 0])

    def device(self, lane):
        device = self.lanes.get(lane)
        if device is None:
            device = next(iter(self.devices), 0)
        return self.devices.setdefault(device, [0, 0, 0]), device

    def apply(self, event):
        kind, a, b = event["kind"], event["a"], event["b"]
        size = (b & (1 << 44) - 1) + (b >> 44)
        if kind == 24:
            for device in self.devices:
                self.exact[device] = False
        if kind not in (1, 2, 3, 4, 5, 6, 7, 8, 20):
            return None
        if kind == 4:
            self.used.add(a)
            return None
        memory, device = self.device(event["lane"])
        if kind == 1:
            memory[1] += size
            memory[2] += size
            self.used.discard(a)
            self.waiting.pop(a, None)
        elif kind == 2:
            memory[1] = max(0, memory[1] - size)
            if a in self.used:
                self.waiting[a] = size
            else:
                memory[2] = max(0, memory[2] - size)
        elif kind == 3:
            if a in self.waiting:
                memory[2] = max(0, memory[2] - self.waiting.pop(a))
                self.used.discard(a)
        elif kind in (5, 7):
            memory[0] += b
        elif kind in (6, 8):
            memory[0] = max(0, memory[0] - b)
        elif kind == 20:
            if self.exact.get(device, True):
                return None
            waits = max(0, memory[2] - memory[1])
            memory[0], memory[1], memory[2] = a, b, b + waits
            self.exact[device] = True
        return device


def check_summary(block, events, memory):
    summary = Bytes(block.summary)
    told = {}
    for _ in range(summary.varint()):
        device, exact = summary.zigzag(), summary.varint()
        last = [summary.varint() for _ in range(3)]
        bins, time, start = [], block.first, list(last)
        for _ in range(summary.varint()):
            time += summary.zigzag()
            ranges = []
            for quantity in range(3):
                smallest = last[quantity] + summary.zigzag()
                largest = smallest + summary.varint()
                last[quantity] = smallest + summary.varint()
                ranges.append((smallest, largest, last[quantity]))
            bins.append((time, ranges))
        told[device] = (exact, start, bins)
    assert summary.done()

    expected = {
        device: (int(memory.exact.get(device, True)), list(values), [])
        for device, values in memory.devices.items()
    }
    for group in range(0, len(events), 256):
        open_bins = {}
        for event in events[group : group + 256]:
            before = {device: list(values) for device, values in memory.devices.items()}
            device = memory.apply(event)
            if device is None:
                continue
            expected.setdefault(device, (1, [0, 0, 0], []))
            values = memory.devices[device]
            if device not in open_bins:
                held = before.get(device, [0, 0, 0])
                open_bins[device] = [event["key"], [[v, v, v] for v in held]]
            for quantity in range(3):
                entry = open_bins[device][1][quantity]
                entry[0] = min(entry[0], values[quantity])
                entry[1] = max(entry[1], values[quantity])
                entry[2] = values[quantity]
        for device, (time, ranges) in open_bins.items():
            expected[device][2].append((time, [tuple(r) for r in ranges]))
    assert told == expected, f"summary of block {block.number}"


def decode(data):
    _, _, _, facts = file_head(data)
    lines = [f"head {key} {facts[key]!r}" for key in sorted(facts)]
    blocks = blocks_of(data)
    definitions, keyframes, streams, endings = set(), [], [], []
    for block in blocks:
        if block.type == 2:
            definitions.update(definitions_of(block))
    memory = Memory()
    is_whole = blocks[0].chapter == 0
    for block in blocks:
        if block.type == 1:
            keyframes += keyframe_of(block)
        elif block.type == 2:
            for line in definitions_of(block):
                if line.startswith("lane "):
                    memory.define(line)
        elif block.type in (3, 4):
            events = events_of(block)
            streams += [(event["key"], block.number, i, event) for i, event in enumerate(events)]
            if block.type == 4:
                assert not block.summary
            elif is_whole:
                check_summary(block, events, memory)
        elif block.type == 5:
            body = Bytes(block.body)
            endings.append(f"end {body.varint()} {body.text()!r} {body.varint()} {body.varint()}")
            assert body.done()
    lines += sorted(definitions) + keyframes
    streams.sort(key=lambda entry: entry[:3])
    names = ("kind", "thread", "sequence", "time", "lane", "aux", "context", "a", "b")
    for _, _, _, event in streams:
        lines.append("event " + " ".join(str(event[name]) for name in names))
    return lines + endings


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        traces = sorted(pathlib.Path(folder).glob("*.levee"))
        assert len(traces) >= 4, traces
        for trace in traces:
            got = decode(trace.read_bytes())
            wanted = trace.with_suffix(".txt").read_text().splitlines()
            for number, (a, b) in enumerate(zip(got, wanted)):
                assert (
                    a == b
                ), f"{trace.name}, line {number}:\n  by FORMAT.md {a}\n  by the reader {b}"
            assert len(got) == len(
                wanted
            ), f"{trace.name}: {len(got)} lines, {len(wanted)} by the reader"
            print(f"{trace.name}: {len(got)} lines agree")


if __name__ == "__main__":
    main()
