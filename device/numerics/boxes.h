// Which of many overlapping boxes are detections: non-maximum suppression as LiteRT's reference
// kernels compute it. Freestanding; all memory is the caller's.
//
// Source: the behavior of LiteRT's TFLite_Detection_PostProcess and NON_MAX_SUPPRESSION_V4 and _V5
// (ai-edge-litert 2.3). Which of equal scores comes first follows there from how a binary heap
// moves its entries, so heaps here move them in the same way: a hole goes down to a leaf, of equal
// children to the right one, and the entry up from there.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace dtr::numerics {

// ---- heaps. `before(a, b)`: a leaves the heap after b. The root leaves first.

template <class Entry, class Before>
void raise_entry(Entry* heap, int32_t hole, int32_t top, Entry entry, Before before) {
  while (hole > top && before(heap[(hole - 1) / 2], entry)) {
    heap[hole] = heap[(hole - 1) / 2];
    hole = (hole - 1) / 2;
  }
  heap[hole] = entry;
}

// Puts `entry` into a heap of `count` entries, in which that at `hole` is missing.
template <class Entry, class Before>
void refill_heap(Entry* heap, int32_t hole, int32_t count, Entry entry, Before before) {
  const int32_t top = hole;
  int32_t right = 2 * hole + 2;
  for (; right < count; right = 2 * hole + 2) {
    const int32_t child = before(heap[right], heap[right - 1]) ? right - 1 : right;
    heap[hole] = heap[child];
    hole = child;
  }
  if (right == count) {
    heap[hole] = heap[right - 1];
    hole = right - 1;
  }
  raise_entry(heap, hole, top, entry, before);
}

template <class Entry, class Before>
void make_heap(Entry* heap, int32_t count, Before before) {
  for (int32_t at = count / 2 - 1; at >= 0; --at) refill_heap(heap, at, count, heap[at], before);
}

// Removes the root of a heap, which is not empty.
template <class Entry, class Before>
Entry take_first(Entry* heap, int32_t* count, Before before) {
  const Entry first = heap[0];
  if (--*count > 0) refill_heap(heap, 0, *count, heap[*count], before);
  return first;
}

// Sorts the `wanted` entries that come first to the front; the others are in no order.
template <class Entry, class Before>
void sort_first(Entry* entries, int32_t count, int32_t wanted, Before comes_first) {
  if (wanted == 0) return;
  make_heap(entries, wanted, comes_first);
  for (int32_t i = wanted; i < count; ++i) {
    if (!comes_first(entries[i], entries[0])) continue;
    const Entry entry = entries[i];
    entries[i] = entries[0];
    refill_heap(entries, 0, wanted, entry, comes_first);
  }
  for (int32_t left = wanted - 1; left > 0; --left) {
    const Entry last = entries[left];
    entries[left] = entries[0];
    refill_heap(entries, 0, left, last, comes_first);
  }
}

// ---- boxes

// Two opposite corners.
template <class T>
struct Box {
  T y1, x1, y2, x2;
};

// Rows of a matrix in any order of dimensions; offsets fit 32 bits.
template <class T>
struct Rows {
  T* data;
  int32_t row_step, column_step;

  T& at(int32_t row, int32_t column) const { return data[row * row_step + column * column_step]; }
  Box<std::remove_const_t<T>> box(int32_t row) const {
    return {at(row, 0), at(row, 1), at(row, 2), at(row, 3)};
  }
};

// Intersection over union; 0 if a box has no area.
template <class T>
T overlap(const Box<T>& a, const Box<T>& b) {
  const T top_a = std::min(a.y1, a.y2), bottom_a = std::max(a.y1, a.y2);
  const T left_a = std::min(a.x1, a.x2), right_a = std::max(a.x1, a.x2);
  const T top_b = std::min(b.y1, b.y2), bottom_b = std::max(b.y1, b.y2);
  const T left_b = std::min(b.x1, b.x2), right_b = std::max(b.x1, b.x2);
  const T area_a = (bottom_a - top_a) * (right_a - left_a);
  const T area_b = (bottom_b - top_b) * (right_b - left_b);
  if (area_a <= 0 || area_b <= 0) return 0;
  const T height = std::max(std::min(bottom_a, bottom_b) - std::max(top_a, top_b), T{0});
  const T width = std::max(std::min(right_a, right_b) - std::max(left_a, left_b), T{0});
  const T both = height * width, either = area_a + area_b - both;
  return either == 0 ? T{0} : both / either;
}

// ---- NON_MAX_SUPPRESSION_V4 and _V5

template <class T>
struct Suppression {
  int32_t boxes = 0;  // how many there are
  int32_t most = 0;   // are selected
  T iou_threshold, score_threshold;
  T sigma;  // 0: what overlaps is left out; else its score falls, too
};

// A box that may still be selected.
template <class T>
struct Candidate {
  int32_t index;
  int32_t compared;  // selected boxes that its score has fallen by
  T score;
};

// Memory that `suppress` computes in: the heap and then the selected boxes.
inline int64_t suppression_bytes(int64_t boxes, int64_t most) {
  return boxes * static_cast<int64_t>(sizeof(Candidate<float>)) +
         std::min(boxes, most) * static_cast<int64_t>(sizeof(int32_t));
}

// Selects boxes of falling score, `most` at most: indices and scores, 0 behind the last one.
// Returns their number. A candidate is left out if it overlaps a selected box by the threshold or
// more. As in LiteRT a selected box is a candidate again, which overlaps itself: one without an
// area, or any box under a threshold above 1, is selected again and again. `heap` has room for
// `boxes` entries, `selected` for `boxes` or `most`, what is less.
template <class T>
int32_t suppress(const Suppression<T>& of, const Rows<const T>& boxes, const Rows<const T>& scores,
                 Candidate<T>* heap, int32_t* selected, const Rows<int32_t>& indices,
                 const Rows<T>& kept_scores) {
  const auto before = [](const Candidate<T>& a, const Candidate<T>& b) {
    return a.score < b.score;
  };
  int32_t waiting = 0, count = 0;
  for (int32_t i = 0; i < of.boxes; ++i) {
    if (!(scores.at(i, 0) > of.score_threshold)) continue;
    raise_entry(heap, waiting, 0, {i, 0, scores.at(i, 0)}, before);
    ++waiting;
  }
  const int32_t most = std::min(waiting, of.most);
  const T scale = of.sigma > 0 ? T{-0.5} / of.sigma : T{0};
  while (count < most && waiting > 0) {
    Candidate<T> next = take_first(heap, &waiting, before);
    const T score = next.score;
    const Box<T> box = boxes.box(next.index);
    bool left_out = false;
    for (int32_t j = count; j-- > next.compared;) {
      const T iou = overlap(box, boxes.box(selected[j]));
      left_out = iou >= of.iou_threshold;
      if (left_out) break;
      if (of.sigma > 0) next.score *= std::exp(scale * iou * iou);
      if (next.score <= of.score_threshold) break;
    }
    next.compared = count;
    if (left_out) continue;
    if (next.score == score) {
      selected[count] = next.index;
      indices.at(count, 0) = next.index;
      kept_scores.at(count, 0) = next.score;
      ++count;
    }
    if (next.score > of.score_threshold) {
      raise_entry(heap, waiting, 0, next, before);
      ++waiting;
    }
  }
  for (int32_t i = count; i < of.most; ++i) {
    indices.at(i, 0) = 0;
    kept_scores.at(i, 0) = 0;
  }
  return count;
}

// ---- TFLite_Detection_PostProcess

template <class T>
struct Detection {
  int32_t boxes = 0;    // how many there are
  int32_t columns = 0;  // of the scores
  int32_t classes = 0;  // the last columns; there may be one of the background in front
  int32_t most = 0;     // detections, each of one box
  int32_t classes_per_box = 0;
  int32_t per_class = 0;  // detections; of the regular form
  bool regular = false;   // suppress boxes of each class by themselves
  T score_threshold, iou_threshold;
  T scales[4];  // of y, x, h and w
};

template <class T>
struct Scored {
  int32_t index;
  T score;
};

// Memory that `detect` computes in.
template <class T>
struct DetectionScratch {
  Box<T>* boxes;      // `boxes`
  Scored<T>* heap;    // `boxes`, of the classes of a box `classes`
  int32_t* selected;  // `boxes`
  Scored<T>* merged;  // `most`; of the regular form
};
template <class T>
int64_t detection_heap(const Detection<T>& of) {
  return std::max(of.boxes, of.classes);
}
template <class T>
int64_t detection_merged(const Detection<T>& of) {
  return of.regular ? of.most : 0;
}

inline int64_t detection_bytes(const Detection<float>& of) {
  return of.boxes * static_cast<int64_t>(sizeof(Box<float>) + sizeof(int32_t)) +
         (detection_heap(of) + detection_merged(of)) * static_cast<int64_t>(sizeof(Scored<float>));
}

// Results: rows of boxes (4 columns), of classes and of scores (1 column), `most · classes_per_box`
// each.
template <class T>
struct Detections {
  Rows<T> boxes, classes, scores;

  void set(int32_t row, const Box<T>& box, int32_t label, T score) const {
    boxes.at(row, 0) = box.y1;
    boxes.at(row, 1) = box.x1;
    boxes.at(row, 2) = box.y2;
    boxes.at(row, 3) = box.x2;
    classes.at(row, 0) = static_cast<T>(label);
    scores.at(row, 0) = score;
  }
};

// The box that is encoded relative to an anchor: centers in units of the anchor's extents, and
// logarithms of extents.
template <class T>
Box<T> decode(const Rows<const T>& encoded, const Rows<const T>& anchors, int32_t at,
              const T (&scales)[4]) {
  const auto part = [&](int32_t i) {
    return static_cast<double>(encoded.at(at, i)) / static_cast<double>(scales[i]);
  };
  const auto anchor = [&](int32_t i) { return static_cast<double>(anchors.at(at, i)); };
  const auto y = static_cast<T>(part(0) * anchor(2) + anchor(0));
  const auto x = static_cast<T>(part(1) * anchor(3) + anchor(1));
  const auto half_height = static_cast<T>(0.5 * std::exp(part(2)) * anchor(2));
  const auto half_width = static_cast<T>(0.5 * std::exp(part(3)) * anchor(3));
  return {y - half_height, x - half_width, y + half_height, x + half_width};
}

// Boxes of the heap's `count` entries by falling score, of equal ones the first, without those that
// overlap one of these by more than the threshold. Returns their number, `most` at most.
template <class T>
int32_t select_boxes(const DetectionScratch<T>& scratch, int32_t count, int32_t most,
                     T iou_threshold) {
  const auto before = [](const Scored<T>& a, const Scored<T>& b) {
    return a.score != b.score ? a.score < b.score : a.index > b.index;
  };
  make_heap(scratch.heap, count, before);
  int32_t selected = 0;
  while (selected < most && count > 0) {
    const int32_t next = take_first(scratch.heap, &count, before).index;
    const bool free =
        std::all_of(scratch.selected, scratch.selected + selected, [&](int32_t other) {
          return !(overlap(scratch.boxes[other], scratch.boxes[next]) > iou_threshold);
        });
    if (free) scratch.selected[selected++] = next;
  }
  return selected;
}

// The highest scores of the classes of each box: the best one decides whether the box remains.
template <class T>
int32_t detect_boxes(const Detection<T>& of, const Rows<const T>& scores,
                     const DetectionScratch<T>& scratch, const Detections<T>& to) {
  const int32_t first = of.columns - of.classes;
  int32_t count = 0;
  for (int32_t i = 0; i < of.boxes; ++i) {
    T best = scores.at(i, first);
    for (int32_t c = 1; c < of.classes; ++c) best = std::max(best, scores.at(i, first + c));
    if (best >= of.score_threshold) scratch.heap[count++] = {i, best};
  }
  const int32_t selected = select_boxes(scratch, count, of.most, of.iou_threshold);
  const int32_t labels = std::min(of.classes_per_box, of.classes);
  for (int32_t i = 0; i < selected; ++i) {
    const int32_t box = scratch.selected[i];
    for (int32_t c = 0; c < of.classes; ++c) scratch.heap[c] = {c, scores.at(box, first + c)};
    sort_first(scratch.heap, of.classes, labels,
               [](const Scored<T>& a, const Scored<T>& b) { return a.score > b.score; });
    for (int32_t c = 0; c < labels; ++c)
      to.set(i * of.classes_per_box + c, scratch.boxes[box], scratch.heap[c].index,
             scratch.heap[c].score);
  }
  return selected;
}

// Boxes of each class by themselves, of which the highest scores of all classes remain; of equal
// ones the first class.
template <class T>
int32_t detect_by_class(const Detection<T>& of, const Rows<const T>& scores,
                        const DetectionScratch<T>& scratch, const Detections<T>& to) {
  const int32_t first = of.columns - of.classes;
  int32_t kept = 0;
  for (int32_t c = 0; c < of.classes; ++c) {
    int32_t count = 0;
    for (int32_t i = 0; i < of.boxes; ++i) {
      const T score = scores.at(i, first + c);
      if (score >= of.score_threshold) scratch.heap[count++] = {i, score};
    }
    const int32_t selected = select_boxes(scratch, count, of.per_class, of.iou_threshold);
    for (int32_t i = 0; i < selected; ++i) {
      const int32_t box = scratch.selected[i];
      const T score = scores.at(box, first + c);
      if (kept == of.most && !(scratch.merged[kept - 1].score < score)) break;
      int32_t place = kept < of.most ? kept++ : kept - 1;
      for (; place > 0 && scratch.merged[place - 1].score < score; --place)
        scratch.merged[place] = scratch.merged[place - 1];
      scratch.merged[place] = {box * of.classes + c, score};
    }
  }
  for (int32_t i = 0; i < kept; ++i) {
    const auto& [place, score] = scratch.merged[i];
    to.set(i, scratch.boxes[place / of.classes], place % of.classes, score);
  }
  return kept;
}

// Detections by falling score; rows that none has are 0. Returns their number, that of boxes unless
// it is the regular form. The scores must not change while it runs.
template <class T>
int32_t detect(const Detection<T>& of, const Rows<const T>& encoded, const Rows<const T>& scores,
               const Rows<const T>& anchors, const DetectionScratch<T>& scratch,
               const Detections<T>& to) {
  const int32_t first = of.columns - of.classes;
  for (int32_t i = 0; i < of.boxes; ++i) {
    bool is_candidate = false;
    for (int32_t c = first; c < of.columns; ++c)
      is_candidate |= scores.at(i, c) >= of.score_threshold;
    if (is_candidate) scratch.boxes[i] = decode(encoded, anchors, i, of.scales);
  }
  const int32_t rows = of.most * of.classes_per_box;
  for (int32_t i = 0; i < rows; ++i) to.set(i, {}, 0, 0);
  return of.regular ? detect_by_class(of, scores, scratch, to)
                    : detect_boxes(of, scores, scratch, to);
}

}  // namespace dtr::numerics
