"""Images drawn by rule, for the demo and for tests: gray, of upright and lying bars, crosses and frames on noise."""
import random

SIDE = 12
NAMES = ("upright bar", "lying bar", "cross", "frame")
INSIDE = (lambda y, x: x in (2, 3), lambda y, x: y in (2, 3), lambda y, x: x in (2, 3) or y in (2, 3),
          lambda y, x: x in (0, 5) or y in (0, 5))


def shapes(count, seed):
    """So many images, a byte a pixel, row by row, and the numbers of their names, a byte each."""
    lot, images, labels = random.Random(seed), bytearray(), bytearray()
    for _ in range(count):
        label, row, column = lot.randrange(len(NAMES)), lot.randrange(2, SIDE - 6), lot.randrange(2, SIDE - 6)
        for y in range(SIDE):
            for x in range(SIDE):
                drawn = 0 <= y - row < 6 and 0 <= x - column < 6 and INSIDE[label](y - row, x - column)
                images.append(lot.randrange(170, 256) if drawn else lot.randrange(0, 100))
        labels.append(label)
    return bytes(images), bytes(labels)


def architecture(model, count):
    """What an architecture file says of a model over so many of these images."""
    return {"format": "quern-arch-1", "batch": 32,
            "model": {"input": {"height": SIDE, "width": SIDE, "channels": 1, "scale": 1 / 128, "shift": -1},
                      "outputs": len(NAMES), **model},
            "data": [{"dtype": "u8", "elements": count * SIDE * SIDE}, {"dtype": "u8", "elements": count}],
            "optimizer": {"type": "adamw", "lr": 1e-2}}


def picture(image):
    """Lines of characters, the brighter the denser, two a pixel."""
    return ["".join(2 * " .:*#"[value * 5 // 256] for value in image[y * SIDE:(y + 1) * SIDE]) for y in range(SIDE)]
