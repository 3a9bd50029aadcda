//! Memory of lists that are filled and emptied again and again.

/// The memory of a list for another list of elements of the same layout: collecting in place keeps it.
#[must_use]
pub fn emptied<T, U>(mut list: Vec<T>) -> Vec<U> {
    list.clear();
    list.into_iter().filter_map(|_| None).collect()
}

/// The same list with no more memory than `elements` need, if it is empty: one large burst must not hold memory for ever.
#[must_use]
pub fn bounded<T>(list: Vec<T>, elements: usize) -> Vec<T> {
    match list.capacity() > elements {
        true => Vec::new(),
        false => list,
    }
}
