//! Parameters of one of several types, which a word such as `kind` selects.

use std::any::Any;
use std::fmt::{self, Debug};
use std::ops::Deref;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

/// Operations common to parameters of every type. A trait with this one as its supertrait adds the
/// operations of its subject.
pub trait AnyParameters: Any + Debug + Send + Sync {
    /// The parameters, to be asked for their type.
    fn as_any(&self) -> &dyn Any;

    /// Returns the parameters as a shared value of any type.
    fn shared(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;

    /// Returns whether `other` is of the same type and value.
    fn equals(&self, other: &dyn Any) -> bool;

    /// The keys and their values.
    ///
    /// # Errors
    /// A value that JSON does not have.
    fn table(&self) -> serde_json::Result<Map<String, Value>>;
}

impl<P: Any + Debug + PartialEq + Serialize + Send + Sync> AnyParameters for P {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn shared(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn table(&self) -> serde_json::Result<Map<String, Value>> {
        serde_json::from_value(serde_json::to_value(self)?)
    }
}

/// Parameters whose type is not known any more; `E` is a `dyn` of the trait that they implement.
pub struct Erased<E: ?Sized>(Arc<E>);

impl<E: AnyParameters + ?Sized> Erased<E> {
    /// Reads these parameters.
    pub fn new(parameters: Arc<E>) -> Self {
        Self(parameters)
    }

    /// The parameters, if they are of type `P`.
    pub fn get<P: 'static>(&self) -> Option<&P> {
        self.0.as_any().downcast_ref()
    }

    /// The parameters, for who knows their type.
    pub fn shared(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::clone(&self.0).shared()
    }
}

impl<E: ?Sized> Clone for Erased<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E: ?Sized> Deref for Erased<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.0
    }
}

impl<E: AnyParameters + ?Sized> Debug for Erased<E> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<E: AnyParameters + ?Sized> PartialEq for Erased<E> {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(other.0.as_any())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    trait Shape: AnyParameters {
        fn corners(&self) -> u32;
    }

    #[derive(Debug, PartialEq, Serialize)]
    struct Square {
        side: u32,
    }

    #[derive(Debug, PartialEq, Serialize)]
    struct Circle {
        side: u32,
    }

    impl Shape for Square {
        fn corners(&self) -> u32 {
            4
        }
    }

    impl Shape for Circle {
        fn corners(&self) -> u32 {
            0
        }
    }

    #[test]
    fn parameters_are_equal_where_type_and_values_are() {
        let square = |side| Erased::<dyn Shape>::new(Arc::new(Square { side }));
        let circle = Erased::<dyn Shape>::new(Arc::new(Circle { side: 2 }));
        assert_eq!(square(2), square(2).clone());
        assert!(square(2) != square(3) && square(2) != circle);
        assert_eq!((square(2).corners(), circle.corners()), (4, 0));
        assert_eq!(circle.get::<Circle>(), Some(&Circle { side: 2 }));
        assert_eq!(circle.get::<Square>(), None);
        assert_eq!(circle.table().unwrap()["side"], 2);
        assert_eq!(format!("{circle:?}"), "Circle { side: 2 }");
    }
}
