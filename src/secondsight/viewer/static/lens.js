// What all panes show of their pictures: zoom and position, and the place under the pointer. They are linked by it.

const DEEPEST = 40; // times: a few places fill the pane

/** Zoom, the centre and the cursor in shares of the picture, and the pane that has the cursor. */
export class Lens {
  constructor(onchange) {
    [this.zoom, this.x, this.y, this.cursor, this.pane] = [1, 0.5, 0.5, null, null];
    this.onchange = onchange;
  }

  /** The part of the picture that is seen, in shares of it. */
  get part() {
    const side = 1 / this.zoom;
    return { left: this.x - side / 2, top: this.y - side / 2, side };
  }

  set(zoom, x, y) {
    this.zoom = Math.min(Math.max(zoom, 1), DEEPEST);
    const half = 0.5 / this.zoom;
    this.x = Math.min(Math.max(x, half), 1 - half);
    this.y = Math.min(Math.max(y, half), 1 - half);
    this.onchange("lens");
  }

  /** Zoom so that the point at these shares of the pane stays where it is. */
  zoomAt(factor, across, down) {
    const { left, top, side } = this.part;
    const [x, y] = [left + across * side, top + down * side];
    const zoom = Math.min(Math.max(this.zoom * factor, 1), DEEPEST);
    this.set(zoom, x + (0.5 - across) / zoom, y + (0.5 - down) / zoom);
  }

  /** Move the picture by shares of the pane. */
  move(across, down) {
    this.set(this.zoom, this.x - across / this.zoom, this.y - down / this.zoom);
  }

  reset() {
    this.set(1, 0.5, 0.5);
  }

  /** Point at a place {x, y} in a pane. Null points at none. */
  point(cursor, pane = null, byKeys = false) {
    [this.cursor, this.pane] = [cursor, pane];
    if (cursor && byKeys) {
      const { left, top, side } = this.part;
      const seen = cursor.x >= left && cursor.x <= left + side && cursor.y >= top && cursor.y <= top + side;
      if (!seen) this.set(this.zoom, cursor.x, cursor.y);
    }
    this.onchange("cursor", byKeys);
  }
}
