//! Things that come and go, by number.

#[derive(Debug)]
pub(crate) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, item: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.items[number as usize] = Some(item);
            return number;
        }
        self.items.push(Some(item));
        (self.items.len() - 1) as u32
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let item = self.items.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(item)
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.items.get(number as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.items.get_mut(number as usize)?.as_mut()
    }
}

/// For numbers that the scheduler itself holds.
impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        self.get(number).expect("the scheduler holds numbers of what there is")
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        self.get_mut(number).expect("the scheduler holds numbers of what there is")
    }
}
