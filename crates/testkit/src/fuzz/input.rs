//! Reading scripts out of a fuzzer's bytes, and writing them for the seeds.

/// What is left of a fuzzer's input.
#[derive(Debug)]
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `len` bytes, or what there is.
    pub(crate) fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(crate) fn take<T: Field>(&mut self) -> T {
        T::take(self)
    }
}

/// A value with a place in a script. Past the end of the input everything is zero or empty, so
/// that every input is a script.
pub(crate) trait Field: Sized {
    /// Reads the value.
    fn take(input: &mut Input<'_>) -> Self;
    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);
}

macro_rules! integers {
    ($($ty:ty)*) => {
        $(impl Field for $ty {
            fn take(input: &mut Input<'_>) -> Self {
                let mut bytes = [0; size_of::<Self>()];
                let found = input.bytes(bytes.len());
                bytes[..found.len()].copy_from_slice(found);
                Self::from_le_bytes(bytes)
            }

            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        })*
    };
}

integers!(u8 i8 u16 u32 u64);

/// Bytes behind their number (16 bits).
impl Field for Vec<u8> {
    fn take(input: &mut Input<'_>) -> Self {
        let len: u16 = input.take();
        input.bytes(usize::from(len)).to_vec()
    }

    fn put(&self, out: &mut Vec<u8>) {
        let len = u16::try_from(self.len()).unwrap_or(u16::MAX);
        len.put(out);
        out.extend_from_slice(self.get(..usize::from(len)).unwrap_or_default());
    }
}

/// A struct whose fields stand one after the other.
macro_rules! record {
    ($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub(crate) struct $name { $($(#[$fdoc])* pub(crate) $field: $ty,)* }

        impl $crate::fuzz::input::Field for $name {
            fn take(input: &mut $crate::fuzz::input::Input<'_>) -> Self {
                Self { $($field: input.take(),)* }
            }

            fn put(&self, out: &mut Vec<u8>) {
                $($crate::fuzz::input::Field::put(&self.$field, out);)*
            }
        }
    };
}

/// An enum of operations, each with its byte and its fields.
macro_rules! operations {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$vdoc:meta])* $code:literal $variant:ident $({ $($field:ident: $ty:ty),* })?;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($(#[$vdoc])* $variant $({ $($field: $ty),* })?,)* }

        impl $crate::fuzz::input::Field for $name {
            fn take(input: &mut $crate::fuzz::input::Input<'_>) -> Self {
                const COUNT: u8 = [$($code),*].len() as u8;
                let code: u8 = input.take();
                match code % COUNT {
                    $($code => Self::$variant $({ $($field: input.take()),* })?,)*
                    _ => unreachable!("codes are dense"),
                }
            }

            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $({ $($field),* })? => {
                        out.push($code);
                        $($($crate::fuzz::input::Field::put($field, out);)*)?
                    })*
                }
            }
        }
    };
}

pub(crate) use {operations, record};
