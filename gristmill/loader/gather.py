"""Kernels that turn (shard, sequence) rows into pieces of documents, and pieces into a batch of tokens.

Belongs here: arithmetic over open shards by address, so that one call serves rows of many shards. Does not belong here:
opening shards, or keeping alive what the addresses point at: that is ``reader.py``, which also guarantees that every
sequence number is one its shard has.
"""

from typing import Any

import numpy as np
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

PADDING = -1  # the document of the piece that fills a sequence's end


def _as_pointer(typing_context, address):  # type: ignore[no-untyped-def]
    """An integer as a pointer."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


_pointer: Any = intrinsic(_as_pointer)


@njit(cache=True, nogil=True)
def concat_pieces(  # type: ignore[no-untyped-def]
    slots, sequences, seq_len, ends_at, starts_at, documents, piece_row, piece_doc, piece_start, piece_length
):
    """Pieces of windows over documents end to end.

    Args:
        slots, sequences: int64 [rows], open shard and sequence in it.
        ends_at, starts_at: addresses by slot: int64 [documents + 1] running tokens of the selected documents, and
            int64 [documents] first token of each in the shard.
        documents: selected documents by slot.
        piece_*: filled; row, index of the selected document, first token in the shard, tokens.

    Returns:
        How many pieces there are; when that is more than fits, only those that fit are filled.
    """
    room = len(piece_row)
    n = 0
    for row in range(len(slots)):
        slot = slots[row]
        count = documents[slot]
        ends = carray(_pointer(ends_at[slot]), (count + 1,), np.int64)
        starts = carray(_pointer(starts_at[slot]), (count,), np.int64)
        at = sequences[row] * seq_len
        stop = at + seq_len
        low = 0
        high = count - 1
        while low < high:
            middle = (low + high + 1) // 2
            if ends[middle] <= at:
                low = middle
            else:
                high = middle - 1
        while at < stop:
            end = min(ends[low + 1], stop)
            if end > at:
                if n < room:
                    piece_row[n] = row
                    piece_doc[n] = low
                    piece_start[n] = starts[low] + (at - ends[low])
                    piece_length[n] = end - at
                n += 1
                at = end
            low += 1
    return n


@njit(cache=True, nogil=True)
def bin_pieces(  # type: ignore[no-untyped-def]
    slots, sequences, seq_len, ptr_at, doc_at, start_at, length_at, bins, pieces,
    piece_row, piece_doc, piece_start, piece_length
):
    """Pieces of best-fit sequences, with a padding piece (document PADDING) where one is not full; else as above."""
    room = len(piece_row)
    n = 0
    for row in range(len(slots)):
        slot = slots[row]
        ptr = carray(_pointer(ptr_at[slot]), (bins[slot] + 1,), np.int64)
        doc = carray(_pointer(doc_at[slot]), (pieces[slot],), np.int64)
        start = carray(_pointer(start_at[slot]), (pieces[slot],), np.int64)
        length = carray(_pointer(length_at[slot]), (pieces[slot],), np.int64)
        left = seq_len
        for k in range(ptr[sequences[row]], ptr[sequences[row] + 1]):
            if n < room:
                piece_row[n] = row
                piece_doc[n] = doc[k]
                piece_start[n] = start[k]
                piece_length[n] = length[k]
            n += 1
            left -= length[k]
        if left > 0:
            if n < room:
                piece_row[n] = row
                piece_doc[n] = PADDING
                piece_start[n] = 0
                piece_length[n] = left
            n += 1
    return n


@njit(cache=True, nogil=True)
def missing_blocks(  # type: ignore[no-untyped-def]
    slots, ok_at, blocks, log2_tokens, piece_row, piece_doc, piece_start, piece_length, out_row, out_block
):
    """Blocks that pieces touch and that are not present, as (row, block) with repeats; their number, as above."""
    n = 0
    for i in range(len(piece_row)):
        if piece_doc[i] < 0:
            continue
        row = piece_row[i]
        slot = slots[row]
        ok = carray(_pointer(ok_at[slot]), (blocks[slot],), np.uint8)
        first = piece_start[i] >> log2_tokens
        last = (piece_start[i] + piece_length[i] - 1) >> log2_tokens
        for block in range(first, last + 1):
            if ok[block] == 0:
                if n < len(out_row):
                    out_row[n] = row
                    out_block[n] = block
                n += 1
    return n


@njit(cache=True, nogil=True)
def copy_pieces(  # type: ignore[no-untyped-def]
    slots, tokens_at, tokens, piece_row, piece_doc, piece_start, piece_length, padding, flat
):
    """Pieces end to end into ``flat`` (any integer type)."""
    at = 0
    for i in range(len(piece_row)):
        length = piece_length[i]
        if piece_doc[i] < 0:
            flat[at : at + length] = padding
        else:
            slot = slots[piece_row[i]]
            source = carray(_pointer(tokens_at[slot]), (tokens[slot],), np.uint32)
            part = source[piece_start[i] : piece_start[i] + length]
            into = flat[at : at + length]
            for k in range(length):  # plain indices, so that the loop becomes vector instructions
                into[k] = part[k]
        at += length
